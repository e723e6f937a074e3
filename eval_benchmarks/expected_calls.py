"""The dry run of a benchmark: the calls that a run would make, estimated with a mock judge on some examples.

Only the data are loaded, and no model.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eval_benchmarks.bench_settings import BenchSettings, check_names
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets.labelled.description import read_description, set_names
from eval_benchmarks.datasets.nano_eval import WORLD
from eval_benchmarks.datasets.registry import find_benchmarks
from eval_benchmarks.originals.packages import ORIGINALS
from eval_benchmarks.output.table import NONE, Table
from rag_zeval.budget import Price
from rag_zeval.models.window import card_of
from rag_zeval.scorers.bert_score import BertScore
from rag_zeval.scorers.registry import CHECKER_SCORERS, SCORERS
from rag_zeval.scoring.estimate import PlannedCalls, drawn_to_look_at, planned_calls
from rag_zeval.scoring.opening import Asking
from rag_zeval.scoring.prices import price_of

HEADS = ("benchmark", "scorer", "model", "rows", "trials", "calls", "tokens in", "tokens out", "hours", "dollars")
HOUR = 3600


@dataclass(frozen=True)
class ExpectedCalls:
    """The calls that a scorer with one model would make on a benchmark, for all trials together.

    model: None if the scorer asks none. rows: the number of texts to score. asked: None if it is unknown, because an
    original package writes its own prompts.
    """

    benchmark: str
    scorer: str
    model: str | None
    rows: int
    trials: int
    asked: PlannedCalls | None

    def hours(self, speed: float) -> float | None:
        """Return the hours that it takes to write the replies at `speed` tokens per second.

        None if nothing is asked, or if it is unknown what is asked.
        """
        return self.asked.completion_tokens / speed / HOUR if self.asked and self.asked.calls else None

    def cells(self, speed: float, prices: dict[str, Price]) -> tuple[str, ...]:
        """Return the cells of its line in the table, in the order of HEADS. speed: reply tokens per second."""
        place = (self.benchmark, self.scorer, self.model or NONE, f"{self.rows:,}", str(self.trials))
        if self.asked is None:
            return (*place, *[NONE] * (len(HEADS) - len(place)))
        hours = self.hours(speed)
        return (
            *place,
            *self.asked.cells,
            NONE if hours is None else f"{hours:.2f}",
            self.asked.dollars(price_of(self.model, prices), NONE),
        )


def expected_calls(settings: BenchSettings, benchmarks: Iterable[Benchmark]) -> Iterator[ExpectedCalls]:
    """Yield the expected calls of every benchmark, scorer and model.

    They come by benchmark: first its scorers without a model, then every model with all judged scorers. The scorers of
    `scorers_left_out` are skipped.
    """
    judged, lacking = settings.judged_scorers, scorers_left_out(settings)
    for benchmark in benchmarks:
        rows = sum(len(example.answers) for example in benchmark.examples)
        for name in dict.fromkeys(settings.scorers):
            if name not in judged and name not in lacking:
                yield ExpectedCalls(benchmark.name, name, None, rows, trials=1, asked=PlannedCalls(0, 0, 0))
        trials = 1 if benchmark.world == WORLD else settings.judge.trials
        for model in settings.models:
            found = _asked_by_each(settings, benchmark, trials, card_of(model))
            for name in judged:
                yield ExpectedCalls(benchmark.name, name, model, rows, trials, found.get(name))


def scorers_left_out(settings: BenchSettings) -> dict[str, str]:
    """Return the chosen scorers that a run leaves out because they have no model, with the setting that each needs."""
    needs = {name: "claim_checker.model" for name in CHECKER_SCORERS if settings.claim_checker.model is None}
    needs |= {BertScore.name: "bert_score.model"} if settings.bert_score.model is None else {}
    return {name: key for name, key in needs.items() if name in settings.scorers}


def _asked_by_each(
    settings: BenchSettings, benchmark: Benchmark, trials: int, card: Mapping[str, Any]
) -> dict[str, PlannedCalls]:
    """Estimate, by scorer, what the chosen scorers ask a judge with this card.

    A question that an earlier scorer asks too is not counted again.
    """
    looked_at = [benchmark.examples[at] for at in drawn_to_look_at(len(benchmark.examples))]
    asking = Asking(settings.judge.sampling(), settings.judge.variant)
    known = [name for name in settings.judged_scorers if name not in ORIGINALS]
    calls = planned_calls([(name, looked_at) for name in known], asking, trials * len(benchmark.examples), card)
    return dict(zip(known, calls, strict=True))


def expected_calls_table(settings: BenchSettings, prices: dict[str, Price]) -> tuple[list[Table], list[str]]:
    """Return the table of a dry run and its notes. The notes name every benchmark whose data are missing."""
    check_names("scorers", settings.scorers, [*SCORERS, *ORIGINALS])
    benchmarks, missing = find_benchmarks(settings)
    speed = settings.judge.reply_tokens_per_second
    lines = [one.cells(speed, prices) for one in expected_calls(settings, benchmarks)]
    there = {benchmark.name for benchmark in benchmarks}
    for name in settings.benchmarks:
        rows = read_description(name).test.rows if name in set_names() and name not in there else None
        if rows is not None:
            lines.append((name, NONE, NONE, f"{rows:,}", *[NONE] * (len(HEADS) - 4)))
    notes = [f"missing: {one}" for one in missing]
    notes += [
        f"left out: {name}: {key} is not a folder with a model" for name, key in scorers_left_out(settings).items()
    ]
    notes.append(
        "tokens are the words and punctuation marks of a rule-based mock judge, so this is a rough estimate; "
        f"hours assume {speed:,g} reply tokens per second (judge.reply_tokens_per_second) and no time for prompts"
    )
    return [Table("what a run would ask", HEADS, lines)], notes
