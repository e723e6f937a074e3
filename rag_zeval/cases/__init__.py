"""Reads cases: questions, the contexts retrieved for them, and the answers of RAG systems.

The modules, in the order in which a file passes through them:

1. A file becomes rows: `row_files`, with `text_files` and `encodings`, `excel`, and `arrangements` of JSON. `objects`
   does it for Python objects. `joining` adds the columns of other files, by `keys`.
2. `survey` looks through all rows once. `wanted` says what the command and its user want.
3. `columns` decides which column holds which of the `fields`: by `layouts` of known tools, by `names`, and by what is
   `nested` in objects.
4. Nothing else is taken, but much is suggested: `missing` columns, `unused` ones, and those of several `systems`. They
   go by the `name_words` of columns, and by the values at `places`, such as `texts` and the messages of a `chat`.
5. `reading` makes a `case` of each row of the `source`. `cells` turns its values into texts, ids and chunks, also those
   that are `printed`. `paths` lead into objects, and `answers` are those of one system or of several.
6. `case_file` tells how all of this was read, with `doubts` about the texts. `question_files` have no answers.
"""
