"""The dry run of a benchmark: the calls that a run would make, estimated with a mock judge on some examples.

Only the data are loaded, and the tokenizer of a local judge if references may have to be cut. No model is loaded.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from eval_benchmarks.bench_settings import BenchSettings, check_names
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.both_orders import has_pairs
from eval_benchmarks.datasets.labelled.description import read_description, set_names
from eval_benchmarks.datasets.registry import find_benchmarks
from eval_benchmarks.jobs import (
    LeaveOut,
    has_what_it_needs,
    is_ranker,
    judge_asking,
    scorers_without_model,
    trials_of,
    unsuited_judge,
)
from eval_benchmarks.model_checks import check_models, not_trained_yet
from eval_benchmarks.originals.packages import ORIGINALS
from eval_benchmarks.output.table import NONE, Table
from rag_zeval.budget import Price
from rag_zeval.errors import InputError
from rag_zeval.judge.prompt import RANKING, judge_messages
from rag_zeval.judge.schema import LETTERS
from rag_zeval.literal_judge import count_tokens
from rag_zeval.models.window import card_of, open_window
from rag_zeval.scorers.registry import JUDGE, MEASURES, SCORERS
from rag_zeval.scorers.sft_ranker import SftRanker
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


def expected_calls(
    settings: BenchSettings, benchmarks: Iterable[Benchmark], leave_out: LeaveOut
) -> Iterator[ExpectedCalls]:
    """Yield the expected calls of every benchmark, scorer and model.

    They come by benchmark: first its scorers without a model, then every model with all judged scorers. What a run
    leaves out is skipped, and `leave_out` is told: scorers without a model, those that need what a benchmark lacks, and
    texts and prompts that a judge does not know.
    """
    judged, lacking = settings.judged_scorers, scorers_without_model(settings, leave_out)
    for benchmark in benchmarks:
        rows = sum(len(example.answers) for example in benchmark.examples)
        measures = {name: MEASURES.get(name) or ORIGINALS.get(name) for name in settings.scorers if name not in lacking}
        fitting = [name for name, of in measures.items() if of is None or has_what_it_needs(benchmark, of, leave_out)]
        for name in fitting:
            if name not in judged:
                yield ExpectedCalls(benchmark.name, name, None, rows, trials=1, asked=PlannedCalls(0, 0, 0))
        for model in settings.models:
            names, card = [], card_of(model)
            for name in (name for name in fitting if name in judged):
                if unsuited := unsuited_judge(settings, benchmark, name, card):
                    leave_out(f"{benchmark.name}, {name} by {model}: {unsuited}")
                else:
                    names.append(name)
            found = _asked_by_each(settings, benchmark, names, model)
            judge = SftRanker.name if is_ranker(judge_asking(settings, benchmark), card) else JUDGE
            for name in names:
                shown, trials = judge if name == JUDGE else name, trials_of(settings, benchmark, name)
                yield ExpectedCalls(benchmark.name, shown, model, rows, trials, found.get(name))


def _asked_by_each(
    settings: BenchSettings, benchmark: Benchmark, names: Sequence[str], model: str
) -> dict[str, PlannedCalls]:
    """Estimate, by scorer, what the scorers of these names ask this judge, in all trials.

    A question that an earlier scorer asks too is not counted again. Original packages are left out.
    """
    n, card = len(benchmark.examples), card_of(model)
    window = open_window(model) if names and benchmark.absolute else None  # only such references are judged in pieces
    looked_at = [benchmark.examples[at] for at in drawn_to_look_at(n)]
    found: dict[str, PlannedCalls] = {}
    if JUDGE in names:
        orders = 2 if settings.judge.swapped and has_pairs(benchmark) else 1
        times = orders * trials_of(settings, benchmark, JUDGE)
        asking = judge_asking(settings, benchmark)
        found[JUDGE] = (
            asked_by_ranker(benchmark, times)
            if is_ranker(asking, card)
            else next(planned_calls([(JUDGE, looked_at)], asking, times * n, card, window))
        )
    others = [name for name in names if name != JUDGE and name not in ORIGINALS]
    asking = Asking(settings.judge.sampling())
    calls = planned_calls([(name, looked_at) for name in others], asking, settings.judge.trials * n, card, window)
    return found | dict(zip(others, calls, strict=True))


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
    left_out: list[str] = []
    lines = [one.cells(speed, prices) for one in expected_calls(settings, benchmarks, left_out.append)]
    there = {benchmark.name for benchmark in benchmarks}
    for name in settings.benchmarks:
        rows = read_description(name).test.rows if name in set_names() and name not in there else None
        if rows is not None:
            lines.append((name, NONE, NONE, f"{rows:,}", *[NONE] * (len(HEADS) - 4)))
    notes = [f"missing: {one}" for one in missing]
    notes += [f"left out: {one}" for one in left_out]
    notes += [
        f"{model}: no model there yet; a run leaves it out until `make train` has written it"
        for model in settings.models
        if settings.judged_scorers and not_trained_yet(model)
    ]
    try:
        check_models(settings)
    except InputError as error:
        notes.append(f"a run would be refused: {error}")
    notes.append(
        "tokens are the words and punctuation marks of a rule-based mock judge, so this is a rough estimate; "
        f"hours assume {speed:,g} reply tokens per second (judge.reply_tokens_per_second) and no time for prompts"
    )
    return [Table("what a run would ask", HEADS, lines)], notes
