"""Read Natural Questions in each of its published layouts, and plain rows. The fields of a record tell its layout.

Original and hub rows hold a page as a list of tokens, simplified rows as a text with one space between tokens. HTML
tags are tokens too, and a long answer is a half-open span of tokens. Simplified rows have only the tokens, so passages
are built from tokens in every layout. Thus a record gives the same passage in each layout. The layouts:
https://github.com/google-research-datasets/natural-questions (README, text_utils.py),
https://huggingface.co/datasets/google-research-datasets/natural_questions,
https://huggingface.co/datasets/sentence-transformers/natural-questions,
https://github.com/nelson-liu/lost-in-the-middle (README).
"""

import hashlib
import html
import re
from collections.abc import Callable, Iterable
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields

NO_LONG_ANSWER = "no_long_answer"
# The columns of a hub file that are read. HTML, byte offsets and candidates are nine tenths of the file.
HUB_COLUMNS = (
    "id", "question.text", "document.tokens.token", "annotations.long_answer", "annotations.short_answers",
)  # fmt: skip

PAIR = {"query", "answer"}  # all columns of a file of pairs

# `<P>`, `</Td>`, `<Th colspan="2">`. Simplified rows have no flag for tags, and write `<Th_colspan="2">`.
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


class BadRecord(InputError):
    """A record that gives no question. It is counted under `reason`."""

    def __init__(self, reason: str, message: str):
        super().__init__(message)
        self.reason = reason


def read_record(record: Row, passage: str) -> tuple[str, str, str, tuple[str, ...]]:
    """Return (id, question, passage, gold answers) of a record in any layout.

    passage: "long_answer" (the passage of the first annotator who marked one) or "page" (all the text of the page).
    Layouts without pages have only one passage, which is used either way.

    A page without a long answer gives no question in both cases, because its annotators found no answer there. In
    layouts without ids, the id is a hash of question and passage. Gold answers are the distinct short answers of all
    annotators, or the row's `answers`. They are () if there are none.

    Raises BadRecord ("no_long_answer", "bad_offset", "unknown_layout"), or InputError naming a wrong field.
    """
    layout = next((layout for field, layout in _LAYOUTS.items() if field in record), None)
    if layout is None or (layout is _pair and set(record) != PAIR):  # with other columns, `answer` may be no passage
        fields = ", ".join(map(repr, list(record)[:8])) or "(none)"
        raise BadRecord(
            "unknown_layout", f"no layout has the fields {fields}; rows of your own have 'id', 'question' and 'passage'"
        )
    id_, question, text = layout(record)
    if isinstance(text, str):
        return id_, question, text, _listed_answers(record)
    annotations = record["annotations"]
    return id_, question, _passage(text, annotations, passage), _short_answers(text, annotations)


# What each layout gives: id, question, and the passage. For a page it gives the page's tokens instead of a passage.
Extract = tuple[str, str, "str | list[Any]"]


def _plain(record: Row) -> Extract:
    check_fields(record, {"id": str, "question": str, "passage": str})
    return record["id"], record["question"], record["passage"]


def _listed_answers(record: Row) -> tuple[str, ...]:
    answers = record.get("answers") or []
    if not isinstance(answers, list) or not all(isinstance(answer, str) for answer in answers):
        raise InputError("field 'answers' must be a list of str")
    return _distinct(answers)


def _distinct(answers: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(answer for answer in answers if answer.strip()))


def _text_id(record: Row) -> Row:
    """Return the record with its id as text. In some layouts ids are numbers of any size."""
    id_ = record.get("example_id")
    return {**record, "example_id": str(id_)} if type(id_) is int else record


def _original(record: Row) -> Extract:
    check_fields(_text_id(record), {"example_id": str, "question_text": str, "annotations": list})
    return str(record["example_id"]), record["question_text"], _column(record["document_tokens"], "token")


def _simplified(record: Row) -> Extract:
    fields = {"example_id": str, "question_text": str, "document_text": str, "annotations": list}
    check_fields(_text_id(record), fields)
    tokens = record["document_text"].split(" ")  # not split(): it also splits at other whitespace inside tokens
    return str(record["example_id"]), record["question_text"], tokens


def _hub(record: Row) -> Extract:
    check_fields(record, {"id": str, "question": dict, "document": dict, "annotations": (dict, list)})
    check_fields(record["question"], {"text": str})
    check_fields(record["document"], {"tokens": (dict, list)})
    return record["id"], record["question"]["text"], _column(record["document"]["tokens"], "token")


def _pair(record: Row) -> Extract:
    """Read a pair of query and answer. The passage keeps the page's title, since nothing marks where the title ends."""
    check_fields(record, {"query": str, "answer": str})
    return asked_hash(record["query"], record["answer"]), record["query"], record["answer"]


def _oracle(record: Row) -> Extract:
    """Read a row with retrieved passages, and take the first one that is marked as gold.

    The mark is `isgold`. In rows without that field it is `hasanswer`.
    """
    check_fields(record, {"question": str, "ctxs": list})
    passages = [passage for passage in record["ctxs"] if isinstance(passage, dict)]
    mark = "isgold" if any("isgold" in passage for passage in passages) else "hasanswer"
    gold = next((passage for passage in passages if passage.get(mark) is True), None)
    if gold is None:
        raise BadRecord(NO_LONG_ANSWER, "no passage of field 'ctxs' is marked 'isgold' or 'hasanswer'")
    check_fields(gold, {"text": str})
    return asked_hash(record["question"], gold["text"]), record["question"], gold["text"]


# Layouts by the field that identifies them. The first match counts.
_LAYOUTS: dict[str, Callable[[Row], Extract]] = {
    "passage": _plain,
    "document_tokens": _original,
    "document_text": _simplified,
    "document": _hub,
    "ctxs": _oracle,
    "query": _pair,
    "question": _plain,
}


def asked_hash(question: str, passage: str) -> str:
    """Return 16 hex digits of a hash of question and passage. In layouts without ids it is the id."""
    return hashlib.sha256(f"{question}\0{passage}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _column(rows: Any, field: str) -> list[Any]:
    """Return one field of a list of rows, as a list. Hub files have a dict of lists instead of a list of rows."""
    try:
        column = rows[field] if isinstance(rows, dict) else [row[field] for row in rows]
    except (KeyError, TypeError) as error:
        raise InputError(f"field '{field}' is missing") from error
    if not isinstance(column, list):
        raise InputError(f"field '{field}' must be list, found {type(column).__name__}")
    return column


def _passage(tokens: list[Any], annotations: Any, passage: str) -> str:
    start, end = _long_answer(_column(annotations, "long_answer"), len(tokens))
    return _prose(tokens if passage == "page" else tokens[start:end])


def _long_answer(long_answers: list[Any], n_tokens: int) -> tuple[int, int]:
    for start, end in zip(_column(long_answers, "start_token"), _column(long_answers, "end_token"), strict=False):
        if type(start) is not int or type(end) is not int:
            raise InputError("fields 'start_token' and 'end_token' must be int")
        if start == end == -1:
            continue
        if not 0 <= start < end <= n_tokens:
            raise BadRecord("bad_offset", f"long answer {start} to {end} lies outside a page of {n_tokens} tokens")
        return start, end
    raise BadRecord(NO_LONG_ANSWER, "no annotator marked a long answer")


def _short_answers(tokens: list[Any], annotations: Any) -> tuple[str, ...]:
    """Return the page's text at the short answers of all annotators. Spans outside the page are ignored."""
    rows = _column(annotations, "short_answers") if _has_short_answers(annotations) else []
    spans = [span for row in rows for span in zip(_column(row, "start_token"), _column(row, "end_token"), strict=False)]
    return _distinct(
        _prose(tokens[start:end])
        for start, end in spans
        if type(start) is int and type(end) is int and 0 <= start < end <= len(tokens)
    )


def _has_short_answers(annotations: Any) -> bool:
    if isinstance(annotations, dict):
        return "short_answers" in annotations
    return all(isinstance(row, dict) and "short_answers" in row for row in annotations)


def _prose(tokens: list[Any]) -> str:
    from nltk.tokenize.treebank import TreebankWordDetokenizer  # the tokens are in Penn Treebank style: `` n't ''

    if not all(isinstance(token, str) for token in tokens):
        raise InputError("field 'token' must be str")
    words = [html.unescape(token) for token in tokens if not _TAG.fullmatch(token)]
    return " ".join(TreebankWordDetokenizer().detokenize(words).split())
