"""The metrics of the nano world's benchmarks. There the truth is known, so verdicts can be checked, not only rankings.

Examples with K=4 candidates measure ranking, verdicts and format; those with K=2 measure the pairwise choice. A row
without a readable judgement is missing, not wrong. The coverage says what share of rows has one.
"""

import re
from collections.abc import Mapping, Sequence

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
from rag_zeval.files import Row
from rag_zeval.judge.example import Example
from rag_zeval.judge.scoring import strictly_ranked
from rag_zeval.scorers.score import Scored
from rag_zeval.stages import world
from rag_zeval.stages.world import RankedExample

WORLD = "nano"  # as in the cards of the judges that know it
RANKED, PAIRS = 4, 2
Verdict = tuple[bool | None, bool]  # the truth (None: not a readable claim), and the judge's verdict


class NanoWorld(Benchmark):
    """A benchmark of examples whose answers all have different true supports, in [0, 1].

    Metrics:
    ranking_accuracy: share of prompts with all pairs strictly in the right order (K=4).
    pairwise_*: see `pairwise_metrics` (K=2).
    And for judges that write trajectories (K=4):
    verdict_accuracy: share of a prompt's claims with the right verdict.
    verdict_tpr, verdict_tnr: share of all true and of all false claims with the right verdict.
    claim_recall: share of the facts in the answers that are among the judge's claims about them. So a judge cannot win
    by leaving some out.
    format_rate: share of replies that the strict parser reads.
    """

    world = WORLD

    def __init__(self, name: str, ranked: Sequence[RankedExample], pairs: Sequence[RankedExample]):
        self.name, self.ranked, self._pairs = name, ranked, pairs
        everything = [*ranked, *pairs]
        self.examples = [_example(r) for r in everything]
        self.data_hash = examples_hash(self.examples, [[r.true_support, dict(r.question.facts)] for r in everything])

    @property
    def pairs(self) -> list[tuple[Example, tuple[float, ...]]]:
        """The examples of two answers, each with the true support of both."""
        return list(zip(self.examples[len(self.ranked) :], (pair.true_support for pair in self._pairs), strict=True))

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        """Compute ranking and pairwise metrics. If the scorer writes trajectories, add verdict and format metrics."""
        judged = [(example, scored.get(example.id)) for example in self.ranked]
        metrics = [mean_metric("ranking_accuracy", [_ranking(*one) for one in judged])]
        metrics += pairwise_metrics(
            [better_first(scored.get(e.id), e.true_support[0] > e.true_support[1]) for e in self._pairs]
        )
        if any("trajectory" in row.parts for row in scored.values()):
            verdicts = [_verdicts(*one) for one in judged]
            strict = [None if row is None else row.parts.get("strict") for _, row in judged]
            metrics += [
                mean_metric("verdict_accuracy", [_accuracy(of_prompt) for of_prompt in verdicts]),
                ratio_metric("verdict_tpr", [_rate(of_prompt, True) for of_prompt in verdicts]),
                ratio_metric("verdict_tnr", [_rate(of_prompt, False) for of_prompt in verdicts]),
                ratio_metric("claim_recall", [_recall(*one) for one in judged]),
                mean_metric("format_rate", [None if read is None else float(read) for read in strict]),
            ]
        return metrics


class NanoEval(NanoWorld):
    """`n` prompts for each K about held-out people, whom the judge never met. Each K has a seed of its own.

    The candidates were written by the world's generator.
    """

    def __init__(self, n: int, seed_ranked: int, seed_pairs: int, split: str = "test"):
        ranked = world.ranked_examples(split, n, RANKED, seed_ranked)
        super().__init__("nano_eval", ranked, world.ranked_examples(split, n, PAIRS, seed_pairs))


def load(settings: RunSettings) -> tuple[NanoEval, list[str]]:
    nano = settings.nano_eval
    return NanoEval(nano.n, nano.seed_ranked, nano.seed_pairs, nano.split), []


def _example(ranked: RankedExample) -> Example:
    passage = ranked.question.passage
    return Example(ranked.id, ranked.question.question, passage, ranked.answers, chunks=(passage,))


def _ranking(example: RankedExample, scored: Scored | None) -> float | None:
    """Return 1 if all answers are strictly in the right order, else 0. None if an answer has no score."""
    if scored is None or None in scored.values:
        return None
    return float(strictly_ranked(scored.values, example.true_support))


def _candidates(scored: Scored | None) -> list[Row | None]:
    """Return the judgement of each answer, None for one that was not read. Empty if nothing was read."""
    return (scored.parts.get("trajectory") or []) if scored else []


def _verdicts(example: RankedExample, scored: Scored | None) -> list[Verdict]:
    """Return the truth and the verdict of each claim. Empty without a readable judgement."""
    claims = [claim for candidate in _candidates(scored) if candidate for claim in candidate["atomic_claims"]]
    return [(world.claim_is_true(claim["claim"], example.question.facts), claim["is_supported"]) for claim in claims]


def _recall(example: RankedExample, scored: Scored | None) -> tuple[int, int] | None:
    """Count the facts of the judged answers: those that the judge's claims about them contain, and all.

    None if there are no facts.
    """
    recalled = total = 0
    for answer, candidate in zip(example.answers, _candidates(scored), strict=False):
        if candidate is None:
            continue
        stated = {world.read_claim(sentence) for sentence in re.split(r"(?<=\.)\s+", answer)}
        recalled += len(stated & {world.read_claim(claim["claim"]) for claim in candidate["atomic_claims"]})
        total += len(stated)
    return (recalled, total) if total else None


def _accuracy(verdicts: list[Verdict]) -> float | None:
    """Return the share of claims with the right verdict; None without claims. An unreadable claim counts as wrong."""
    return sum(truth is verdict for truth, verdict in verdicts) / len(verdicts) if verdicts else None


def _rate(verdicts: list[Verdict], truth: bool) -> tuple[int, int] | None:
    """Return (with the right verdict, all) for the claims whose truth is `truth`. None without any claims."""
    if not verdicts:
        return None
    judged_so = [verdict is truth for known, verdict in verdicts if known is truth]
    return sum(judged_so), len(judged_so)
