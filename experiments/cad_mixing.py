"""Compares two runs of `synthesize`: one mixes logits, the other mixes probabilities, as the paper's Eq. 3 is printed.

`python -m experiments.cad_mixing LOGITS PROBABILITIES` takes the folders of finished runs over the same questions.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from eval_benchmarks.output.table import Table, markdown
from experiments.markdown import mean_figure
from rag_zeval.errors import InputError
from rag_zeval.files import (
    NONE,
    NUMBER_OR_NONE,
    FieldTypes,
    Maybe,
    Row,
    check_fields,
    check_object,
    iter_jsonl,
    locate,
    read_json,
)
from rag_zeval.stages.answer_quality import contains_answer
from rag_zeval.statistics.bootstrap import share_interval
from rag_zeval.streams import command_line
from rag_zeval.text import with_interval
from synthesize.answer_set import OLDER

HEADS = ("setting", "n", "answers that differ", "right, logits", "right, probabilities", "difference")
RIGHT = "right: the share of facts that the passage states (nano), or whether a gold answer is in it (real questions)"
ANSWERED: FieldTypes = {  # the fields of a row with answers that are read
    "responses": [{"alpha": (int, float), "text": str, "true_support": Maybe(NUMBER_OR_NONE)}],
    "gold_answers": Maybe(([str], NONE)),
}
Answers = Mapping[float, tuple[str, float | None]]  # by alpha: the text, and how right it is (None: unknown)


def mixing_table(logits: Path, probabilities: Path) -> Table:
    """Return a table with a line for each alpha, with 95% intervals.

    Its columns: n, the share of answers that differ, how right both runs are, and the paired difference (probabilities
    minus logits). Raises InputError if a folder is not such a run, or if the two runs have different
    questions or values of alpha.
    """
    first, second = (_read(run, mixing) for run, mixing in ((logits, "logits"), (probabilities, "probabilities")))
    if first.keys() != second.keys():
        raise InputError(f"{probabilities}: does not answer the same questions as {logits}")
    if any(answers.keys() != second[id_].keys() for id_, answers in first.items()):
        raise InputError(f"{probabilities}: does not have the same values of alpha as {logits}")
    lines = []
    for alpha in sorted({alpha for answers in first.values() for alpha in answers}, reverse=True):
        pairs = [(answers[alpha], second[id_][alpha]) for id_, answers in first.items()]
        differ = sum(one[0] != other[0] for one, other in pairs)
        share = with_interval(differ / len(pairs), *share_interval(differ, len(pairs)))
        known = [(one[1], other[1]) for one, other in pairs if one[1] is not None and other[1] is not None]
        columns = [[a for a, _ in known], [b for _, b in known]]
        change = mean_figure([b - a for a, b in known], "+.3f")
        lines.append((f"α = {alpha:g}", f"{len(pairs):,}", share, *map(mean_figure, columns), change))
    return Table("What Eq. 3 as printed changes in the answers", HEADS, lines)


def _read(run: Path, mixing: str) -> dict[str, Answers]:
    """Return the answers of a run by question id, without the questions that failed.

    Raises InputError if it is no such run, or if it has no answers.
    """
    manifest, responses = run / "manifest.json", run / "responses.jsonl"
    found = (OLDER | check_object(manifest, read_json(manifest), {"config": dict})["config"])["mixing"]
    if found != mixing:
        raise InputError(f"{run}: mixes {found}, expected {mixing}")
    answers: dict[str, Answers] = {}
    for number, row in iter_jsonl(responses, {"id": str, "status": str}):
        if row["status"] == "ok":
            with locate(f"{responses}:{number}"):
                check_fields(row, ANSWERED)
            answers[row["id"]] = {of["alpha"]: (of["text"], _right(of, row)) for of in row["responses"]}
    if not answers:
        raise InputError(f"{responses}: no question was answered")
    return answers


def _right(response: Row, row: Row) -> float | None:
    if response.get("true_support") is not None:
        return float(response["true_support"])
    return float(contains_answer(response["text"], row["gold_answers"])) if row.get("gold_answers") else None


def compare(
    logits: Annotated[Path, typer.Argument(help="The folder of the run that mixes logits.")],
    probabilities: Annotated[Path, typer.Argument(help="The folder of the run that mixes probabilities.")],
) -> None:
    print(markdown([mixing_table(logits, probabilities)], [RIGHT]))


main = command_line(compare, "experiments.cad_mixing", "Compare answers made with Eq. 3 as printed and with logits.")

if __name__ == "__main__":
    sys.exit(main())
