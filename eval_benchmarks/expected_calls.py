"""The dry run of a benchmark: the calls that a run would make, estimated with a mock judge on some examples.

Only the data are loaded, and no model.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_benchmarks.bench_settings import BenchSettings, check_names
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.both_orders import has_pairs
from eval_benchmarks.datasets.labelled.description import read_description, set_names
from eval_benchmarks.datasets.registry import find_benchmarks
from eval_benchmarks.jobs import judge_asking, trials_of, unknown_to_judge
from eval_benchmarks.originals.packages import ORIGINALS
from eval_benchmarks.output.table import NONE, Table
from rag_zeval.budget import Price
from rag_zeval.models.window import card_of
from rag_zeval.scorers.bert_score import BertScore
from rag_zeval.scorers.registry import CHECKER_SCORERS, JUDGE, SCORERS
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

    They come by benchmark: first its scorers without a model, then every model with all judged scorers. What a run
    leaves out is skipped: the scorers of `scorers_left_out`, and texts and prompts that a judge does not know.
    """
    judged, lacking = settings.judged_scorers, scorers_left_out(settings)
    for benchmark in benchmarks:
        rows = sum(len(example.answers) for example in benchmark.examples)
        for name in dict.fromkeys(settings.scorers):
            if name not in judged and name not in lacking:
                yield ExpectedCalls(benchmark.name, name, None, rows, trials=1, asked=PlannedCalls(0, 0, 0))
        for model in settings.models:
            card = card_of(model)
            names = [name for name in judged if not unknown_to_judge(benchmark, name, card)]
            found = _asked_by_each(settings, benchmark, names, card)
            for name in names:
                trials = trials_of(settings, benchmark, name)
                yield ExpectedCalls(benchmark.name, name, model, rows, trials, found.get(name))


def scorers_left_out(settings: BenchSettings) -> dict[str, str]:
    """Return the chosen scorers that a run leaves out because they have no model, with the setting that each needs."""
    needs = {name: "claim_checker.model" for name in CHECKER_SCORERS if settings.claim_checker.model is None}
    needs |= {BertScore.name: "bert_score.model"} if settings.bert_score.model is None else {}
    return {name: key for name, key in needs.items() if name in settings.scorers}


def _asked_by_each(
    settings: BenchSettings, benchmark: Benchmark, names: Sequence[str], card: Mapping[str, Any]
) -> dict[str, PlannedCalls]:
    """Estimate, by scorer, what the scorers of these names ask a judge with this card, in all trials.

    A question that an earlier scorer asks too is not counted again. Original packages are left out.
    """
    n = len(benchmark.examples)
    looked_at = [benchmark.examples[at] for at in drawn_to_look_at(n)]
    found: dict[str, PlannedCalls] = {}
    if JUDGE in names:
        orders = 2 if settings.judge.swapped and has_pairs(benchmark) else 1
        times = orders * trials_of(settings, benchmark, JUDGE)
        asking = judge_asking(settings, benchmark)
        found[JUDGE] = next(planned_calls([(JUDGE, looked_at)], asking, times * n, card))
    others = [name for name in names if name != JUDGE and name not in ORIGINALS]
    asking = Asking(settings.judge.sampling())
    calls = planned_calls([(name, looked_at) for name in others], asking, settings.judge.trials * n, card)
    return found | dict(zip(others, calls, strict=True))


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
    notes += [
        f"left out: {benchmark.name}, {name} by {model}: {why}"
        for model in settings.models
        for benchmark in benchmarks
        for name in settings.judged_scorers
        if (why := unknown_to_judge(benchmark, name, card_of(model)))
    ]
    notes.append(
        "tokens are the words and punctuation marks of a rule-based mock judge, so this is a rough estimate; "
        f"hours assume {speed:,g} reply tokens per second (judge.reply_tokens_per_second) and no time for prompts"
    )
    return [Table("what a run would ask", HEADS, lines)], notes
