"""Two answers to a real question, decoded at different alpha: does a scorer prefer the one with the larger alpha?

A model wrote the answers to questions that no judge was trained on (`make synthesize` with `split: test`). The label is
alpha, which only says which answer should be the better one. There is a second label if people's short answers (gold
answers) are known and exactly one of the two answers contains one. Nobody here made that label.
"""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval_benchmarks.bench_settings import RunSettings
from eval_benchmarks.benchmark import (
    Benchmark,
    Metric,
    better_first,
    examples_hash,
    mean_metric,
    pairwise_metrics,
    ratio_metric,
)
from rag_zeval.errors import InputError
from rag_zeval.files import Maybe, Row, check_fields, iter_unique, locate
from rag_zeval.judge.example import Example
from rag_zeval.judge.quotes import find_quotes
from rag_zeval.judge.scoring import same_words
from rag_zeval.scorers.score import Scored
from rag_zeval.stages.answer_quality import contains_answer, repetition
from rag_zeval.text import is_blank

GOLD = Maybe(([str], type(None)))  # the kind of the field `gold_answers`


@dataclass(frozen=True)
class CadPair:
    """A question and two of its answers, in the order shown.

    gold: which of them contains a gold answer; None if no gold answers are known.
    """

    example: Example
    alphas: tuple[float, float]
    gold: tuple[bool, bool] | None


class CadPairs(Benchmark):
    """One pair of answers to each question whose answers differ. It is drawn with the question's id as seed.

    Metrics:
    pairwise_*: by alpha. gold/pairwise_*: by gold answers, over the pairs of which exactly one answer contains one.
    And for judges that write trajectories:
    format_rate: share of replies that the strict parser reads.
    no_loop/format_rate: the same over pairs in which neither answer says the same again and again.
    verbatim: share of quotes that are in the passage word for word.
    claims: per answer. supported: share of all claims. analysis_words: per claim.
    """

    no_human = "nobody judged these answers"

    def __init__(self, name: str, responses: Path):
        self.name = name
        self.pairs = [pair for row in _read(responses) if (pair := draw_pair(row)) is not None]
        if not self.pairs:
            raise InputError(f"{responses}: has no question with two different answers")
        self.examples = [pair.example for pair in self.pairs]
        self.alphas = {pair.example.id: pair.alphas for pair in self.pairs}
        self.data_hash = examples_hash(self.examples, [[pair.alphas, pair.gold] for pair in self.pairs])

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        metrics = pairwise_metrics(
            [better_first(scored.get(p.example.id), p.alphas[0] > p.alphas[1]) for p in self.pairs]
        )
        told = [(p.example.id, p.gold[0]) for p in self.pairs if p.gold is not None and p.gold[0] != p.gold[1]]
        if told:
            metrics += pairwise_metrics([better_first(scored.get(id_), first) for id_, first in told], "gold/")
        if any("trajectory" in row.parts for row in scored.values()):
            habits = [_habits(pair.example, scored.get(pair.example.id)) for pair in self.pairs]
            read = [habit.pop("format", None) for habit in habits]
            steady = [value for value, pair in zip(read, self.pairs, strict=True) if not loops(pair.example.answers)]
            metrics += [mean_metric("format_rate", read), mean_metric("no_loop/format_rate", steady)]
            metrics += [ratio_metric(name, [habit.get(name) for habit in habits]) for name in HABITS]
        return metrics


HABITS = ("verbatim", "claims", "supported", "analysis_words")
LOOPS = 0.2  # lowest seq-rep-4 at which `train` leaves out an answer in PROFILE=small


def loops(answers: Sequence[str]) -> bool:
    """Whether one of the answers says the same again and again: its `repetition` is LOOPS or more."""
    return any((repetition(answer) or 0) >= LOOPS for answer in answers)


def load(name: str, settings: RunSettings) -> tuple[CadPairs | None, list[str]]:
    """Load the benchmark of that name. Return None and a line if its answers are missing.

    The settings' section of the same name names the file with the answers.
    """
    responses: str | None = getattr(settings, name).responses
    if responses is None or not Path(responses).is_file():
        sentences = "1" if name == "cad_sentences" else "null"
        return None, [
            f"{name}: no file {responses or f'in {name}.responses'}; `make synthesize` with split=test and "
            f"max_sentences={sentences} writes one"
        ]
    return CadPairs(name, Path(responses)), []


def _read(path: Path) -> list[Row]:
    rows = []
    for number, row in iter_unique(path, {"status": str}):
        if row["status"] == "ok":
            with locate(f"{path}:{number}"):
                response = {"alpha": (int, float), "text": str}
                check_fields(row, {"question": str, "passage": str, "responses": [response], "gold_answers": GOLD})
            rows.append(row)
    return rows


def draw_pair(row: Row) -> CadPair | None:
    """Draw two answers of a row of `responses.jsonl` that differ and are not blank, in random order.

    None if the row has no such answers.
    """
    rng = random.Random(row["id"])
    answers = [(response["alpha"], response["text"]) for response in row["responses"] if not is_blank(response["text"])]
    pairs = [pair for pair in itertools.combinations(answers, 2) if not same_words(pair[0][1], pair[1][1])]
    if not pairs:
        return None
    chosen = list(rng.choice(pairs))
    rng.shuffle(chosen)
    (alpha, first), (other_alpha, second) = chosen
    gold = row.get("gold_answers")
    holds = (contains_answer(first, gold), contains_answer(second, gold)) if gold else None
    example = Example(row["id"], row["question"], row["passage"], (first, second), chunks=(row["passage"],))
    return CadPair(example, (alpha, other_alpha), holds)


def _habits(example: Example, scored: Scored | None) -> dict:
    """Describe how a judge wrote: `format` is 1 or 0. With a trajectory, also (sum, of how many) for each of HABITS.

    Empty if there is no reply to describe.
    """
    if scored is None or scored.parts.get("strict") is None:
        return {}
    habits: dict = {"format": float(scored.parts["strict"])}
    if candidates := [candidate for candidate in scored.parts.get("trajectory") or () if candidate]:
        claims = [claim for candidate in candidates for claim in candidate["atomic_claims"]]
        quotes = [quote for claim in claims for quote in claim["grounding_evidence"]]
        verbatim = find_quotes(example.reference, quotes).verbatim
        habits |= {
            "verbatim": (sum(verbatim[quote] == 1 for quote in quotes), len(quotes)),
            "claims": (len(claims), len(candidates)),
            "supported": (sum(claim["is_supported"] for claim in claims), len(claims)),
            "analysis_words": (sum(len(claim["analysis"].split()) for claim in claims), len(claims)),
        }
    return habits
