"""What a run would ask, before it asks anything: a mock judge on some examples of each benchmark.

Nothing is loaded but the data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from eval_benchmarks.bench_settings import BenchSettings, check_names
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets.labelled.description import read_description, set_names
from eval_benchmarks.datasets.nano_eval import WORLD
from eval_benchmarks.datasets.registry import find_benchmarks
from eval_benchmarks.originals.packages import ORIGINALS
from eval_benchmarks.output.table import NONE, Table
from rag_zeval.budget import Price
from rag_zeval.scorers.registry import MEASURES, SCORERS
from rag_zeval.scoring.estimate import PlannedCalls, drawn_to_look_at, planned_calls
from rag_zeval.scoring.opening import Asking, asks_judge
from rag_zeval.scoring.prices import price_of

HEADS = ("benchmark", "scorer", "model", "rows", "trials", "calls", "tokens in", "tokens out", "hours", "dollars")
HOUR = 3600


@dataclass(frozen=True)
class Planned:
    """What a scorer with one model (None: it asks none) would ask about a benchmark, all trials together.

    rows: texts to be scored. `asked` is None where nobody can say it: an original package asks in its own words.
    """

    benchmark: str
    scorer: str
    model: str | None
    rows: int
    trials: int
    asked: PlannedCalls | None


def plan(settings: BenchSettings, benchmarks: Iterable[Benchmark]) -> Iterator[Planned]:
    """A line for each benchmark, scorer and model, in the order in which they would be scored."""
    judged = settings.judged_scorers
    others = [name for name in dict.fromkeys(settings.scorers) if name not in judged]
    for benchmark in benchmarks:
        rows = sum(len(example.answers) for example in benchmark.examples)
        for name in others:
            yield Planned(benchmark.name, name, None, rows, 1, PlannedCalls(0, 0, 0))
        trials = 1 if benchmark.world == WORLD else settings.judge.trials
        found = _asked_by_each(settings, benchmark, judged, trials)
        for model in settings.models:
            for name in judged:
                yield Planned(benchmark.name, name, model, rows, trials, found[name])


def _asked_by_each(
    settings: BenchSettings, benchmark: Benchmark, scorers: Collection[str], trials: int
) -> dict[str, PlannedCalls | None]:
    """What each scorer asks, in order; what an earlier one has asked is not asked again."""
    looked_at = [benchmark.examples[at] for at in drawn_to_look_at(len(benchmark.examples))]
    asking = Asking(settings.judge.sampling(), settings.judge.variant)
    known = [name for name in scorers if asks_judge(name) or name in MEASURES]
    calls = planned_calls([(name, looked_at) for name in known], asking, trials * len(benchmark.examples))
    return {**dict.fromkeys(scorers), **dict(zip(known, calls, strict=True))}


def say(settings: BenchSettings, prices: dict[str, Price]) -> tuple[list[Table], list[str]]:
    """The table of a dry run and its notes, with a line for every benchmark whose data are not there."""
    check_names("scorers", settings.scorers, [*SCORERS, *ORIGINALS])
    benchmarks, missing = find_benchmarks(settings)
    speed = settings.judge.reply_tokens_per_second
    lines = [line(one, speed, prices) for one in plan(settings, benchmarks)]
    there = {benchmark.name for benchmark in benchmarks}
    for name in settings.benchmarks:
        rows = read_description(name).test.rows if name in set_names() and name not in there else None
        if rows is not None:
            lines.append((name, NONE, NONE, f"{rows:,}", *[NONE] * (len(HEADS) - 4)))
    notes = [f"missing: {one}" for one in missing]
    notes.append(
        "tokens are the words and punctuation marks of a rule-based mock judge, so this is a rough estimate; "
        f"hours assume {speed:,g} reply tokens per second (judge.reply_tokens_per_second) and no time for prompts"
    )
    return [Table("what a run would ask", HEADS, lines)], notes


def line(planned: Planned, speed: float, prices: dict[str, Price]) -> tuple[str, ...]:
    """The cells of a line, by HEADS."""
    place = (planned.benchmark, planned.scorer, planned.model or NONE, f"{planned.rows:,}", str(planned.trials))
    found = planned.asked
    if found is None:
        return (*place, *[NONE] * (len(HEADS) - len(place)))
    hours = f"{found.completion_tokens / speed / HOUR:.2f}" if found.calls else NONE
    return (*place, *found.cells, hours, found.dollars(price_of(planned.model, prices), NONE))
