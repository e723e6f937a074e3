"""What the nano world's benchmarks measure: its truth is known, so verdicts are, and not only rankings.

Sets of K=4 candidates measure ranking, verdicts and format; sets of K=2 the pairwise choice. A row without a readable
judgement is missing, not wrong: coverage says how many there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from eval_benchmarks.benchmark import Metric, examples_hash, mean_metric, pairwise_metrics, ratio_metric
from rag_zeval.judge.evaluator import Example
from rag_zeval.judge.scoring import strictly_ranked
from rag_zeval.scorers.score import Scored, Scorer
from rag_zeval.stages import world
from rag_zeval.stages.world import RankedExample

WORLD = "nano"  # as the cards of the judges that know it say
RANKED, PAIRS = 4, 2
Verdict = tuple[bool | None, bool]  # what the world says (None: no readable claim), what the judge says


class NanoWorld:
    """A benchmark of examples whose true supports, in [0, 1], are pairwise distinct.

    Metrics: ranking_accuracy (all pairs strictly right, K=4), pairwise_* (K=2), and for judges that write trajectories
    verdict_accuracy (a prompt's share of claims judged rightly), verdict_tpr and verdict_tnr (over all true and all
    false claims), claim_recall (facts of the answers that stand among the judge's claims about them: a judge must not
    win by leaving some out) and format_rate (the strict parser reads the reply).
    """

    world: str | None = WORLD
    shipped: tuple[Scorer, ...] = ()
    human: tuple[Metric, ...] = ()
    no_ceiling: str | None = None  # nobody annotates: the truth is known

    def __init__(self, name: str, ranked: Sequence[RankedExample], pairs: Sequence[RankedExample]):
        self.name, self.ranked, self._pairs = name, ranked, pairs
        everything = [*ranked, *pairs]
        self.examples = [_example(r) for r in everything]
        self.data_hash = examples_hash(self.examples, [[r.true_support, dict(r.question.facts)] for r in everything])

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        """Ranking and pairwise metrics for any scorer; verdicts and format too where the scorer gives verdicts."""
        metrics = [mean_metric("ranking_accuracy", [_ranking(r, scored.get(r.id)) for r in self.ranked])]
        metrics += pairwise_metrics([_pair(r, scored.get(r.id)) for r in self._pairs])
        if any("trajectory" in row.parts for row in scored.values()):
            verdicts = [_verdicts(r, scored.get(r.id)) for r in self.ranked]
            metrics += [
                mean_metric("verdict_accuracy", [_accuracy(v) for v in verdicts]),
                ratio_metric("verdict_tpr", [_rate(v, True) for v in verdicts]),
                ratio_metric("verdict_tnr", [_rate(v, False) for v in verdicts]),
                ratio_metric("claim_recall", [_recall(r, scored.get(r.id)) for r in self.ranked]),
                mean_metric("format_rate", [_strict(scored.get(r.id)) for r in self.ranked]),
            ]
        return metrics


def _example(ranked: RankedExample) -> Example:
    passage = ranked.question.passage
    return Example(ranked.id, ranked.question.question, passage, ranked.answers, chunks=(passage,))


def _ranking(example: RankedExample, scored: Scored | None) -> float | None:
    if scored is None or None in scored.values:
        return None
    return float(strictly_ranked(scored.values, example.true_support))


def _pair(example: RankedExample, scored: Scored | None) -> tuple[float | None, float | None] | None:
    if scored is None:
        return None
    first, second = scored.values
    return (first, second) if example.true_support[0] > example.true_support[1] else (second, first)


def _verdicts(example: RankedExample, scored: Scored | None) -> list[Verdict] | None:
    """All verdicts of a prompt beside the truth; None where there is no judgement or no claim in it."""
    candidates: list[dict[str, Any]] = (scored.parts.get("trajectory") if scored else None) or []
    facts = example.question.facts
    claims = [claim for candidate in candidates for claim in candidate["atomic_claims"]]
    return [(world.claim_is_true(claim["claim"], facts), claim["is_supported"]) for claim in claims] or None


def _accuracy(verdicts: list[Verdict] | None) -> float | None:
    """Share of a prompt's claims judged rightly; a claim that is not readable is not right."""
    return None if verdicts is None else sum(truth is said for truth, said in verdicts) / len(verdicts)


def _rate(verdicts: list[Verdict] | None, truth: bool) -> tuple[int, int] | None:
    """(judged so, all) among the claims whose truth is `truth`."""
    if verdicts is None:
        return None
    said = [said is truth for known, said in verdicts if known is truth]
    return sum(said), len(said)


def _strict(scored: Scored | None) -> float | None:
    """1 if the strict parser read the reply, 0 if there was a reply that it did not read."""
    strict = scored.parts.get("strict") if scored else None
    return None if strict is None else float(strict)


def _recall(example: RankedExample, scored: Scored | None) -> tuple[int, int] | None:
    """(facts of all answers that the judge's claims about that answer hold, all facts); None without a judgement."""
    candidates: list[dict[str, Any]] = (scored.parts.get("trajectory") if scored else None) or []
    if not candidates:
        return None
    found = total = 0
    for answer, candidate in zip(example.answers, candidates, strict=False):
        stated = {world.read_claim(sentence) for sentence in re.split(r"(?<=\.)\s+", answer)}
        found += len(stated & {world.read_claim(claim["claim"]) for claim in candidate["atomic_claims"]})
        total += len(stated)
    return found, total
