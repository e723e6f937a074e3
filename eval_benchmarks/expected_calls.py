"""The dry run of a benchmark: the calls that a run would make, estimated with a mock judge on some examples.

Only the data are loaded, and the tokenizer of a local judge if references may have to be cut. No model is loaded.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from eval_benchmarks.bench_settings import BenchSettings, check_names
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.datasets.labelled.description import read_description, set_names
from eval_benchmarks.datasets.registry import find_benchmarks
from eval_benchmarks.model_checks import check_models
from eval_benchmarks.originals.packages import ORIGINALS
from eval_benchmarks.output.table import NONE, Table
from eval_benchmarks.plan import Planned, judge_asking, plan_run
from rag_zeval.budget import Price
from rag_zeval.errors import InputError
from rag_zeval.judge.prompt import RANKING, judge_messages
from rag_zeval.judge.schema import LETTERS
from rag_zeval.literal_judge import count_tokens
from rag_zeval.models.window import card_of, open_window
from rag_zeval.scorers.claim_checkers import CheckedClaims
from rag_zeval.scorers.registry import JUDGE, MEASURES, SCORERS
from rag_zeval.scorers.sft_ranker import SftRanker
from rag_zeval.scoring.estimate import PlannedCalls, drawn_to_look_at, planned_calls
from rag_zeval.scoring.opening import Asking
from rag_zeval.scoring.prices import price_of

HEADS = ("benchmark", "scorer", "model", "rows", "trials", "calls", "tokens in", "tokens out", "hours", "dollars")
HOUR = 3600
NO_CALLS = PlannedCalls(0, 0, 0)


@dataclass(frozen=True)
class ExpectedCalls:
    """The calls that a line of a plan would make, for all trials together.

    asked: None if it is unknown, because an original package writes its own prompts.
    """

    planned: Planned
    asked: PlannedCalls | None

    def hours(self, speed: float) -> float | None:
        """Return the hours that it takes to write the replies at `speed` tokens per second.

        None if nothing is asked, or if it is unknown what is asked.
        """
        return self.asked.completion_tokens / speed / HOUR if self.asked and self.asked.calls else None

    def cells(self, speed: float, prices: dict[str, Price]) -> tuple[str, ...]:
        """Return the cells of its line in the table, in the order of HEADS. speed: reply tokens per second."""
        one, rows = self.planned, sum(len(example.answers) for example in self.planned.benchmark.examples)
        place = (one.benchmark.name, one.scorer, one.model or NONE, f"{rows:,}", str(one.trials))
        if self.asked is None:
            return (*place, *[NONE] * (len(HEADS) - len(place)))
        hours = self.hours(speed)
        return (
            *place,
            *self.asked.cells,
            NONE if hours is None else f"{hours:.2f}",
            self.asked.dollars(price_of(one.model, prices), NONE),
        )


def expected_calls(settings: BenchSettings, planned: Sequence[Planned]) -> Iterator[ExpectedCalls]:
    """Yield the expected calls of a plan (see `eval_benchmarks.plan`), benchmark by benchmark."""
    places = [*dict.fromkeys(one.benchmark.name for one in planned)]
    planned = sorted(planned, key=lambda one: places.index(one.benchmark.name))
    for _, group in groupby(planned, lambda one: (one.benchmark.name, one.model, one.judged)):
        together = [*group]
        found = _asked_by_each(settings, together)
        for one in together:
            yield ExpectedCalls(one, found.get(one.scorer))
            if one.checked:
                yield ExpectedCalls(replace(one, scorer=CheckedClaims.name), NO_CALLS)


def _asked_by_each(settings: BenchSettings, planned: Sequence[Planned]) -> dict[str, PlannedCalls]:
    """Estimate, by scorer, what these scorers of one benchmark ask one model, in all trials.

    A question that an earlier scorer asks too is not counted again. Original packages are left out.
    """
    benchmark, model = planned[0].benchmark, planned[0].model
    if model is None:
        return {one.scorer: NO_CALLS for one in planned}
    n, card = len(benchmark.examples), card_of(model)
    window = open_window(model) if planned[0].judged and benchmark.absolute else None  # only these are in pieces
    looked_at = [benchmark.examples[at] for at in drawn_to_look_at(n)]
    found: dict[str, PlannedCalls] = {}
    for one in planned:
        times = one.trials * (2 if one.both_orders else 1)
        if one.scorer == SftRanker.name:
            found[one.scorer] = asked_by_ranker(benchmark, times)
        elif one.scorer == JUDGE:
            asking = judge_asking(settings, benchmark)
            (found[JUDGE],) = planned_calls([(JUDGE, looked_at)], asking, times * n, card, window)
    names, times = [one.scorer for one in planned if one.scorer in MEASURES], max(one.trials for one in planned)
    asking = Asking(settings.judge.sampling())
    calls = planned_calls([(name, looked_at) for name in names], asking, times * n, card, window)
    return found | dict(zip(names, calls, strict=True))


def asked_by_ranker(benchmark: Benchmark, times: int) -> PlannedCalls:
    """Return what a ranker is asked if it ranks every example so many times. A reply is a list of letters."""
    prompts = replies = 0
    for example in benchmark.examples:
        messages = judge_messages(RANKING.name, example.question, example.reference, example.answers)
        prompts += sum(count_tokens(message["content"]) for message in messages)
        replies += count_tokens(json.dumps([*LETTERS[: len(example.answers)]]))
    return PlannedCalls(times * len(benchmark.examples), times * prompts, times * replies)


def expected_calls_table(settings: BenchSettings, prices: dict[str, Price]) -> tuple[list[Table], list[str]]:
    """Return the table of a dry run and its notes.

    The notes name every benchmark whose data are missing, and say why a run would be refused, if it would.
    """
    check_names("scorers", settings.scorers, [*SCORERS, *ORIGINALS])
    benchmarks, missing = find_benchmarks(settings)
    speed = settings.judge.reply_tokens_per_second
    planned, left_out = plan_run(settings, benchmarks)
    lines = [one.cells(speed, prices) for one in expected_calls(settings, planned)]
    there = {benchmark.name for benchmark in benchmarks}
    for name in settings.benchmarks:
        rows = read_description(name).test.rows if name in set_names() and name not in there else None
        if rows is not None:
            lines.append((name, NONE, NONE, f"{rows:,}", *[NONE] * (len(HEADS) - 4)))
    notes = [f"missing: {one}" for one in missing]
    notes += [f"left out: {one}" for one in left_out]
    try:
        check_models(settings)
    except InputError as error:
        notes.append(f"a run would be refused: {error}")
    notes.append(
        "tokens are the words and punctuation marks of a rule-based mock judge, so this is a rough estimate; "
        f"hours assume {speed:,g} reply tokens per second (judge.reply_tokens_per_second) and no time for prompts"
    )
    return [Table("what a run would ask", HEADS, lines)], notes
