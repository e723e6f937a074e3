"""What the nano world's benchmarks measure: its truth is known, so verdicts are, and not only rankings.

Sets of K=4 candidates measure ranking, verdicts and format; sets of K=2 the pairwise choice. A row without a readable
judgement is missing, not wrong: coverage says how many there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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

WORLD = "nano"  # as the cards of the judges that know it say
RANKED, PAIRS = 4, 2
Verdict = tuple[bool | None, bool]  # what the world says (None: no readable claim), what the judge says


class NanoWorld(Benchmark):
    """A benchmark of examples whose true supports, in [0, 1], are pairwise distinct.

    Metrics: ranking_accuracy (all pairs strictly right, K=4), pairwise_* (K=2), and for judges that write trajectories
    verdict_accuracy (a prompt's share of claims judged rightly), verdict_tpr and verdict_tnr (over all true and all
    false claims), claim_recall (facts of the answers that stand among the judge's claims about them: a judge must not
    win by leaving some out) and format_rate (the strict parser reads the reply).
    """

    world = WORLD

    def __init__(self, name: str, ranked: Sequence[RankedExample], pairs: Sequence[RankedExample]):
        self.name, self.ranked, self._pairs = name, ranked, pairs
        everything = [*ranked, *pairs]
        self.examples = [_example(r) for r in everything]
        self.data_hash = examples_hash(self.examples, [[r.true_support, dict(r.question.facts)] for r in everything])

    @property
    def pairs(self) -> list[tuple[Example, tuple[float, ...]]]:
        """The examples of two answers, and the true support of each."""
        return list(zip(self.examples[len(self.ranked) :], (pair.true_support for pair in self._pairs), strict=True))

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        """Ranking and pairwise metrics for any scorer; verdicts and format too where the scorer gives verdicts."""
        ranked = [_judgement(example, scored.get(example.id)) for example in self.ranked]
        metrics = [mean_metric("ranking_accuracy", [judgement.ranking for judgement in ranked])]
        metrics += pairwise_metrics(
            [better_first(scored.get(e.id), e.true_support[0] > e.true_support[1]) for e in self._pairs]
        )
        if any("trajectory" in row.parts for row in scored.values()):
            verdicts = [judgement.verdicts for judgement in ranked]
            metrics += [
                mean_metric("verdict_accuracy", [_accuracy(of_prompt) for of_prompt in verdicts]),
                ratio_metric("verdict_tpr", [_rate(of_prompt, True) for of_prompt in verdicts]),
                ratio_metric("verdict_tnr", [_rate(of_prompt, False) for of_prompt in verdicts]),
                ratio_metric("claim_recall", [judgement.recall for judgement in ranked]),
                mean_metric("format_rate", [judgement.strict for judgement in ranked]),
            ]
        return metrics


class NanoEval(NanoWorld):
    """`n` prompts for each K about held-out people, whom the judge never met, drawn with seeds of their own.

    The generator wrote the candidates.
    """

    def __init__(self, n: int, seed_ranked: int, seed_pairs: int, split: str = "test"):
        ranked = world.ranked_examples(split, n, RANKED, seed_ranked)
        super().__init__("nano_eval", ranked, world.ranked_examples(split, n, PAIRS, seed_pairs))


def load(settings: RunSettings) -> tuple[NanoEval, list[str]]:
    """The benchmark; it needs no data, so no line says what is missing."""
    nano = settings.nano_eval
    return NanoEval(nano.n, nano.seed_ranked, nano.seed_pairs, nano.split), []


def _example(ranked: RankedExample) -> Example:
    passage = ranked.question.passage
    return Example(ranked.id, ranked.question.question, passage, ranked.answers, chunks=(passage,))


@dataclass(frozen=True)
class Judgement:
    """What a scorer made of a prompt, held against the truth; None where there is no score, judgement or reply.

    ranking: 1 if all answers are in strict order, else 0; verdicts: one of each claim; recall: (facts of all answers
    that the judge's claims about that answer hold, all facts); strict: 1 if the strict parser read the reply, else 0.
    """

    ranking: float | None = None
    verdicts: list[Verdict] | None = None
    recall: tuple[int, int] | None = None
    strict: float | None = None


def _judgement(example: RankedExample, scored: Scored | None) -> Judgement:
    if scored is None:
        return Judgement()
    ranking = None if None in scored.values else float(strictly_ranked(scored.values, example.true_support))
    strict = scored.parts.get("strict")
    candidates = scored.parts.get("trajectory") or []
    facts = example.question.facts
    claims = [claim for candidate in candidates for claim in candidate["atomic_claims"]]
    verdicts = [(world.claim_is_true(claim["claim"], facts), claim["is_supported"]) for claim in claims]
    recall = _recall(example, candidates) if candidates else None
    return Judgement(ranking, verdicts or None, recall, None if strict is None else float(strict))


def _recall(example: RankedExample, candidates: Sequence[Row]) -> tuple[int, int]:
    recalled = total = 0
    for answer, candidate in zip(example.answers, candidates, strict=False):
        stated = {world.read_claim(sentence) for sentence in re.split(r"(?<=\.)\s+", answer)}
        recalled += len(stated & {world.read_claim(claim["claim"]) for claim in candidate["atomic_claims"]})
        total += len(stated)
    return recalled, total


def _accuracy(verdicts: list[Verdict] | None) -> float | None:
    """Share of a prompt's claims judged rightly; a claim that is not readable is not right."""
    return None if verdicts is None else sum(truth is verdict for truth, verdict in verdicts) / len(verdicts)


def _rate(verdicts: list[Verdict] | None, truth: bool) -> tuple[int, int] | None:
    """(judged so, all) among the claims whose truth is `truth`."""
    if verdicts is None:
        return None
    judged_so = [verdict is truth for known, verdict in verdicts if known is truth]
    return sum(judged_so), len(judged_so)
