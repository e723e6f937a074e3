"""Two answers of a model to a real question, decoded at different alpha: does a scorer prefer the larger alpha's?

Answers of questions that no judge was trained on, as `make synthesize` wrote them (`split: test`). The truth is alpha,
which only says which answer should be the better one; where people's short answers are known and exactly one of the two
holds one, that is a second truth, which nobody here made.
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
from rag_zeval.files import Row, check_fields, iter_unique, locate
from rag_zeval.judge.example import Example
from rag_zeval.judge.quotes import find_quotes
from rag_zeval.judge.scoring import same_words
from rag_zeval.scorers.score import Scored
from rag_zeval.stages.answer_quality import contains_answer, repetition
from rag_zeval.text import is_blank


@dataclass(frozen=True)
class CadPair:
    """A question and two of its answers in the order shown; `gold`: which of them holds a gold answer, None unknown."""

    example: Example
    alphas: tuple[float, float]
    gold: tuple[bool, bool] | None


class CadPairs(Benchmark):
    """One pair of each question whose answers differ, drawn with its id as seed.

    Metrics: pairwise_* by alpha, gold/pairwise_* over the pairs of which exactly one answer holds a gold answer; and
    for judges that write trajectories format_rate (the strict parser reads the reply; no_loop/format_rate: those where
    neither answer says the same again and again), verbatim (quotes that stand in the passage word for word, of all),
    claims (of an answer), supported (of all claims), analysis_words (of a claim).
    """

    no_ceiling = "nobody judged these answers"

    def __init__(self, name: str, responses: Path):
        self.name = name
        self.pairs = [pair for row in _read(responses) if (pair := draw_pair(row)) is not None]
        if not self.pairs:
            raise InputError(f"{responses}: has no question with two different answers")
        self.examples = [pair.example for pair in self.pairs]
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
LOOPS = 0.2  # seq-rep-4 from which on `train` leaves an answer of PROFILE=small out


def loops(answers: Sequence[str]) -> bool:
    """Whether one of them says the same again and again: its `repetition` is LOOPS or more."""
    return any((repetition(answer) or 0) >= LOOPS for answer in answers)


def load(name: str, settings: RunSettings) -> tuple[CadPairs | None, list[str]]:
    """The benchmark of that name, whose answers the settings' section of the same name names."""
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
                check_fields(row, {"question": str, "passage": str, "responses": [response]})
            rows.append(row)
    return rows


def draw_pair(row: Row) -> CadPair | None:
    """Two answers of a row of `responses.jsonl` that differ and are not empty, in an order drawn; None without any."""
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
    """How a judge wrote: `format` 1 or 0, and, of a trajectory, (sum, of how many) for each of HABITS."""
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
