"""The plan of a benchmark run: what it scores, with which scorers and models. A dry run prints the same plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from eval_benchmarks.bench_settings import BenchSettings
from eval_benchmarks.benchmark import Benchmark
from eval_benchmarks.both_orders import has_pairs
from eval_benchmarks.datasets.nano_eval import WORLD
from eval_benchmarks.model_checks import not_trained_yet
from eval_benchmarks.originals.packages import ORIGINALS, Original
from rag_zeval.judge.needs import missing_everywhere
from rag_zeval.judge.prompt import RANKING
from rag_zeval.models.language_model import Sampling
from rag_zeval.models.open import check_spec
from rag_zeval.models.window import card_of
from rag_zeval.scorers.asking import Measure
from rag_zeval.scorers.bert_score import BertScore
from rag_zeval.scorers.claim_checkers import CheckedClaims
from rag_zeval.scorers.registry import CHECKER_SCORERS, JUDGE, MEASURES, TEXT_SCORERS
from rag_zeval.scorers.sft_ranker import SftRanker
from rag_zeval.scoring.opening import CHECKED_TEXTS, Asking


@dataclass(frozen=True)
class Planned:
    """A scorer that a run applies to a benchmark.

    model: the judge (`judged`) or the embedding model that it asks. trials: how often, each with a seed of its own.
    both_orders: whether the judge is then asked in the other order, too. checked: whether `checked_claims` follows.
    """

    benchmark: Benchmark
    scorer: str
    model: str | None = None
    judged: bool = False
    trials: int = 1
    both_orders: bool = False
    checked: bool = False


def plan_run(settings: BenchSettings, benchmarks: Sequence[Benchmark]) -> tuple[list[Planned], list[str]]:
    """Return what a run does, in its order (cheap scorers first), and a line for everything that it leaves out.

    No model is loaded. A judge that is not trained yet is in the plan, because a dry run shows its costs before the
    training. A run leaves it out, so it has a line as well.
    """
    chosen = dict.fromkeys(settings.scorers)
    needed = dict.fromkeys(CHECKER_SCORERS, ("claim_checker.model", settings.claim_checker.model))
    needed[BertScore.name] = "bert_score.model", settings.bert_score.model
    lacking = {name: key for name, (key, model) in needed.items() if name in chosen and model is None}
    left_out = [f"{name}: {key} is not a folder with a model" for name, key in lacking.items()]
    texts = [name for name in chosen if name in TEXT_SCORERS]
    texts += [name for name in (BertScore.name, *CHECKED_TEXTS) if name in chosen and name not in lacking]
    checked = CheckedClaims.name in chosen and CheckedClaims.name not in lacking
    planned = [Planned(benchmark, name) for benchmark, name in product(benchmarks, texts)]
    planned += [Planned(benchmark, scorer.name) for benchmark in benchmarks for scorer in benchmark.shipped]
    asking = [(benchmark, JUDGE) for benchmark in benchmarks if JUDGE in chosen]
    measures: list[Measure | Original] = [MEASURES[name] for name in chosen if name in MEASURES]
    measures += [ORIGINALS[name] for name in chosen if name in ORIGINALS]
    for benchmark, measure in product(benchmarks, measures):
        if missing := _missing(benchmark, measure):
            left_out.append(f"{benchmark.name}, {measure.name}: the benchmark has no {' and no '.join(missing)}")
        elif measure.name in settings.judged_scorers:
            asking.append((benchmark, measure.name))
        else:
            planned.append(Planned(benchmark, measure.name, settings.embeddings.model))
    for spec in settings.models if asking else ():
        judged, card = list[Planned](), card_of(spec)
        for benchmark, name in asking:
            if why := _left_out(settings, benchmark, name, spec, card):
                left_out.append(why)
                continue
            one = Planned(benchmark, name, spec, judged=True, trials=trials_of(settings, benchmark, name))
            if name == JUDGE:
                swapped = settings.judge.swapped and has_pairs(benchmark)
                one = replace(one, both_orders=swapped, checked=checked)
                if is_ranker(judge_asking(settings, benchmark), card):
                    one = replace(one, scorer=SftRanker.name, checked=False)
                    if checked:
                        left_out.append(f"{benchmark.name}, {CheckedClaims.name} by {spec}: a ranker writes no claims")
            judged.append(one)
        if judged and not_trained_yet(spec):
            names = ", ".join(dict.fromkeys(one.scorer for one in judged))
            left_out.append(f"{names} by {spec}: no model there yet, so a run leaves it out; `make train` writes it")
        planned += judged
    return planned, [*dict.fromkeys(left_out)]


def _missing(benchmark: Benchmark, measure: Measure | Original) -> list[str]:
    """Return what a measure needs and no example of the benchmark has."""
    missing = missing_everywhere(benchmark.examples, measure.needs)
    if isinstance(measure, Measure) and measure.only and not any(map(measure.only[1], benchmark.examples)):
        missing.append(measure.only[0])
    return missing


def _left_out(
    settings: BenchSettings, benchmark: Benchmark, name: str, spec: str, card: Mapping[str, Any]
) -> str | None:
    """Return a line that says why a scorer cannot ask this judge about a benchmark. None if it can."""
    if name not in ORIGINALS:
        unsuited = unsuited_judge(settings, benchmark, name, card)
        return unsuited and f"{benchmark.name}, {name} by {spec}: {unsuited}"
    original = ORIGINALS[name]
    specs = [spec, settings.embeddings.model] if original.embeds else [spec]
    if not all(one and check_spec(one) for one in specs):
        return f"{name} by {spec}: an original package can only ask endpoints"
    missing = f"{name}: its environment is missing; run `make {original.environment}/.ready`"
    return None if original.is_installed else missing


def unsuited_judge(settings: BenchSettings, benchmark: Benchmark, name: str, card: Mapping[str, Any]) -> str | None:
    """Return why a judge with this card cannot be asked by a scorer of that name. None if it can be.

    A judge of a generated world knows RAG-Zeval's prompt and the texts of its world, and nothing else. A ranker cannot
    judge texts with labels of their own.
    """
    world = card.get("world")
    if world and name != JUDGE:
        return "this judge knows only its own prompt"
    if world and benchmark.world != world:
        return f"this judge knows only its own world ({world})"
    ranks = name == JUDGE and benchmark.absolute and is_ranker(judge_asking(settings, benchmark), card)
    return "a ranker does not say what is supported" if ranks else None


def is_ranker(asking: Asking, card: Mapping[str, Any]) -> bool:
    """Whether a judge with this card ranks answers, unless it is asked with another prompt."""
    return asking.variant is None and card.get("variant") == RANKING.name


def trials_of(settings: BenchSettings, benchmark: Benchmark, name: str) -> int:
    """Return how many trials a judged scorer runs: one if another trial would be the same.

    RAG-Zeval decodes greedily in the nano world, and an original package that compares embeddings samples nothing.
    """
    greedy = name == JUDGE and benchmark.world == WORLD
    return 1 if greedy or (name in ORIGINALS and ORIGINALS[name].embeds) else settings.judge.trials


def judge_asking(settings: BenchSettings, benchmark: Benchmark, trial: int = 0) -> Asking:
    """Return how RAG-Zeval asks a judge in a trial. Benchmarks of the nano world are judged greedily."""
    judge, nano = settings.judge, settings.nano_eval
    asking = Asking(judge.sampling(trial), judge.variant, structured=judge.structured, patterns=judge.patterns)
    if benchmark.world == WORLD:
        greedy = Sampling(temperature=0.0, top_p=1.0, max_tokens=nano.max_tokens, seed=0)
        return replace(asking, variant=nano.variant, sampling=greedy)
    return asking
