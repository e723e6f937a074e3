"""Answers by context-aware decoding, as in training, but about held-out people that training never asked about.

`python -m eval_benchmarks.datasets.nano_cad RESPONSES` chooses the prompts from a synthesize run of the split "test"
and writes ROWS. That file is shipped, so the set stays as it was fixed before any training.
"""

import itertools
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from eval_benchmarks.bench_settings import RunSettings
from eval_benchmarks.datasets.nano_eval import PAIRS, RANKED, NanoWorld
from rag_zeval.errors import InputError
from rag_zeval.files import Row, read_jsonl, write_text
from rag_zeval.stages import world
from rag_zeval.streams import command_line

ROWS = Path(__file__).with_name("nano_cad.jsonl")
N = 500  # prompts for each K


class NanoCad(NanoWorld):
    """The shipped prompts. They measure a judge by the true support of an answer, not by its alpha."""

    def __init__(self, rows: Sequence[Row]):
        examples = [_example(row) for row in rows]
        ranked, pairs = ([e for e in examples if len(e.answers) == k] for k in (RANKED, PAIRS))
        super().__init__("nano_cad", ranked, pairs)


def load(settings: RunSettings) -> tuple[NanoCad, list[str]]:
    return NanoCad(read_jsonl(ROWS, {"id": str, "answers": list})), []


def _example(row: Row) -> world.RankedExample:
    question = world.find_question(row["id"])
    found = (world.true_support(answer, question.facts) for answer in row["answers"])
    supports = tuple(support for support in found if support is not None)
    if len(supports) < len(row["answers"]):
        raise InputError(f"{row['id']}: an empty answer has no true support, so it cannot be ranked")
    return world.RankedExample(row["id"], question, tuple(row["answers"]), supports)


def choose(responses: Sequence[Row], n: int = N) -> list[Row]:
    """Choose `n` rows `{id, answers}` with four answers, then `n` of other questions with two.

    Rows of the same kind are in the order of `responses`. Only answers whose true supports all differ can be ranked, so
    a question without them is skipped. Which answers are taken, and their order, is drawn with the question's id as
    seed. Raises InputError if there are too few questions.
    """
    chosen: dict[int, list[Row]] = {RANKED: [], PAIRS: []}
    for row in responses:
        facts = world.find_question(row["id"]).facts
        supports = {response["text"]: world.true_support(response["text"], facts) for response in row["responses"]}
        supports = {text: support for text, support in supports.items() if support is not None}  # not of an empty one
        rng = random.Random(row["id"])
        for k in (RANKED, PAIRS):
            subsets = [s for s in itertools.combinations(supports, k) if len({supports[text] for text in s}) == k]
            if len(chosen[k]) < n and subsets:
                answers = list(rng.choice(subsets))
                rng.shuffle(answers)
                chosen[k].append({"id": row["id"], "answers": answers})
                break
    for k, rows in chosen.items():
        if len(rows) < n:
            raise InputError(f"{len(responses)} questions gave {len(rows)} prompts with K={k}, {n} are wanted")
    return [*chosen[RANKED], *chosen[PAIRS]]


def write_rows(responses: Annotated[Path, typer.Argument(help="A responses.jsonl of the split test.")]) -> None:
    answered = read_jsonl(responses, {"id": str, "status": str})
    rows = choose([row for row in answered if row["status"] == "ok"])
    write_text(ROWS, "".join(json.dumps(row) + "\n" for row in rows))
    print(f"{len(rows)} prompts: {ROWS}")


main = command_line(write_rows, "eval_benchmarks.datasets.nano_cad", "Choose the prompts of nano_cad.")

if __name__ == "__main__":
    sys.exit(main())
