"""An answer set: a Parquet file with the answers of earlier runs, without passages, which a new run can reuse.

    python -m synthesize.answer_set FILE RUN [RUN ...]      # writes FILE from the folders of finished runs

The file has no passages, because the source of the questions has its own licence. `synthesize answers=FILE` joins
answers and source by the questions' ids, and by `asked`, a hash of question and passage. So answers about another
passage are not reused. The file's metadata say what the answers were made with. A run with another model or other
settings refuses the file.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_zeval.errors import InputError
from rag_zeval.files import (
    COUNT,
    NONE,
    NUMBER_OR_NONE,
    FieldTypes,
    Maybe,
    Row,
    check_fields,
    check_object,
    first_difference,
    iter_unique,
    locate,
    parse_row,
    read_json,
    write_bytes,
)
from rag_zeval.streams import command_line
from rag_zeval.text import without_surrogates
from synthesize.natural_questions import asked_hash

MADE_WITH = b"rag_zeval_made_with"  # key in the Parquet metadata
# Keys of a manifest's `made_with` and `config` that determine the answers to a question.
OF_THE_RUN = ("model_sha256", "prompt_hash")
OF_THE_CONFIG = ("alphas", "mixing", "chat_template", "max_new_tokens", "dtype", "engine")
OLDER = {"mixing": "logits"}  # values for answers made before the key existed
MANIFEST: FieldTypes = {
    "config": {
        "alphas": [(int, float)],
        "chat_template": bool,
        "max_new_tokens": COUNT,
        "dtype": str,
        "engine": str,
        "mixing": Maybe(str),
    },
    "made_with": dict.fromkeys(OF_THE_RUN, (str, NONE)),
}
RESPONSE: FieldTypes = {
    "alpha": (int, float), "text": str, "n_tokens": COUNT, "finished": bool, "true_support": NUMBER_OR_NONE,
}  # fmt: skip
ROW: FieldTypes = {  # of `responses.jsonl`
    "status": str, "question": str, "passage": str, "gold_answers": Maybe([str]), "responses": [RESPONSE],
}  # fmt: skip
KEPT = ("alpha", "text", "n_tokens", "finished")
# A row of an answer set. Older sets, such as the one that ships, have no `asked`: their ids are such hashes.
ANSWERS: FieldTypes = {"id": str, "asked": Maybe(str), "responses": [{key: RESPONSE[key] for key in KEPT}]}


def provenance(config: Mapping[str, Any], made_with: Mapping[str, Any]) -> Row:
    """Return the parts of a run's configuration and `made_with` that determine its answers."""
    return {key: made_with[key] for key in OF_THE_RUN} | {key: {**OLDER, **config}[key] for key in OF_THE_CONFIG}


def read_answers(path: str | Path, made_with: Row) -> dict[tuple[str, str], list[Row]]:
    """Return the responses by id and `asked_hash` of the question, in the format of `responses.jsonl`.

    Raises InputError if the file is not an answer set, or if its answers were made with anything but `made_with`.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
        described = (table.schema.metadata or {})[MADE_WITH]
        rows = table.select([name for name in ANSWERS if name != "asked" or name in table.column_names]).to_pylist()
    except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    except KeyError as error:
        raise InputError(f"{path}: is not an answer set: {error.args[0]!r} is missing") from error
    with locate(path):
        before = OLDER | parse_row(described)
    if key := first_difference(before, made_with):
        raise InputError(f"{path}: its answers were made with {key}={before.get(key)}, not {made_with.get(key)}")
    for number, row in enumerate(rows, 1):
        with locate(f"{path}: row {number}"):
            check_fields(row, ANSWERS)
    return {
        (row["id"], row.get("asked", row["id"])): [{**response, "true_support": None} for response in row["responses"]]
        for row in rows
    }


def write_answers(path: str | Path, runs: Sequence[str | Path]) -> int:
    """Write the answers of finished runs to a file, and return the number of questions.

    Raises InputError if a run is not finished, has shortened answers (`max_sentences`), or is of the nano world. The
    same if its model, prompt or settings differ from those of the first run, or if no question was answered.
    """
    import pyarrow
    import pyarrow.parquet

    rows: dict[str, Row] = {}
    made_with: Row = {}
    for folder in map(Path, runs):
        manifest = check_object(folder / "manifest.json", read_json(folder / "manifest.json"), MANIFEST)
        if manifest["config"].get("max_sentences") is not None:
            raise InputError(f"{folder}: its answers were shortened (max_sentences); an answer set holds whole ones")
        its = provenance(manifest["config"], manifest["made_with"])
        if key := first_difference(made_with or its, its):
            raise InputError(f"{folder}: was made with {key}={its[key]}, {runs[0]} with {made_with[key]}")
        made_with = its
        for number, row in iter_unique(folder / "responses.jsonl", ROW):
            if any(response["true_support"] is not None for response in row["responses"]):
                raise InputError(
                    f"{folder}/responses.jsonl:{number}: is of the generated world, which needs no answer set"
                )
            if row["status"] == "ok":
                responses = [
                    {**{key: response[key] for key in KEPT}, "text": without_surrogates(response["text"])}
                    for response in row["responses"]
                ]
                asked = asked_hash(row["question"], row["passage"])
                rows[row["id"]] = {"id": without_surrogates(row["id"]), "asked": asked, "responses": responses}
    if not rows:
        raise InputError(f"{', '.join(map(str, runs))}: no question was answered, so there is nothing to keep")
    table = pyarrow.Table.from_pylist(list(rows.values()))
    content = pyarrow.BufferOutputStream()
    described = table.replace_schema_metadata({MADE_WITH: json.dumps(made_with)})
    pyarrow.parquet.write_table(described, content, compression="zstd")
    write_bytes(Path(path), content.getvalue().to_pybytes())
    return len(rows)


def write(
    file: Annotated[Path, typer.Argument(help="The file to write, Parquet.")],
    runs: Annotated[list[Path], typer.Argument(help="The folders of the synthesis runs.")],
) -> None:
    from rag_zeval.commands.arguments import check_files  # brings numpy

    check_files((run / name for run in runs for name in ("manifest.json", "responses.jsonl")), ("FILE", file))
    print(f"{file}: the answers to {write_answers(file, runs)} questions")


main = command_line(write, "synthesize.answer_set", "Keep the answers of finished synthesis runs in one Parquet file.")

if __name__ == "__main__":
    sys.exit(main())
