"""Measures of a release besides its scores: retrieval, latency and cost.

They are computed from the result rows of each case. You can compare and gate them like metrics, by these names:

- hit_rate@K, recall@K, precision@K, ndcg@K, mrr@K, map@K: see `rag_zeval.golden.retrieval`.
- retrieved_and_supported@K: 1 if a gold chunk is among the first K and the answer is supported, else 0.
- latency_mean, latency_p95: seconds. cost_per_1000: dollars for 1,000 answers. Lower is better for all three.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace

from rag_zeval.cases.case import never_match
from rag_zeval.decisions.amounts import AMOUNTS
from rag_zeval.decisions.sides import Side
from rag_zeval.errors import InputError
from rag_zeval.golden.kinds import FAITHFULNESS, metric_of
from rag_zeval.golden.retrieval import HIT_RATE, Ranking, values
from rag_zeval.results import Judged
from rag_zeval.text import one_line

RETRIEVAL = {
    "hit_rate": HIT_RATE, "recall": "recall", "precision": "precision", "ndcg": "nDCG", "mrr": "MRR", "map": "MAP",
}  # fmt: skip
JOINT = "retrieved_and_supported"
SUPPORTED_FROM = 0.5  # as in `rag-zeval failures`
_RANKED = re.compile(f"({'|'.join((*RETRIEVAL, JOINT))})@([1-9][0-9]{{0,5}})")


def with_measures(side: Side, names: Iterable[str]) -> Side:
    """Add to the side those of the named measures that it does not have. Names that are not measures are ignored.

    Cases without gold chunks get no retrieval measure. If anything else is missing, the case's score is None; that
    nothing was retrieved is not missing. A note on stderr says if no gold chunk was ever retrieved, which may mean that
    the two kinds of ids differ. Raises InputError if no case has the columns that a measure needs.
    """
    asked = [name for name in names if name not in side.judged and (name in AMOUNTS or _RANKED.fullmatch(name))]
    if not AMOUNTS.keys() >= {*asked}:
        note = never_match((one.retrieved, one.gold_chunk_ids) for one in side.cases.values() if one.retrieved)
        if note:
            print(f"note: {one_line(f'{side.name}: {note}')}", file=sys.stderr)
    return replace(side, judged={**side.judged, **{name: _measured(side, name) for name in asked}})


def _measured(side: Side, name: str) -> dict[str, Judged]:
    """Compute a measure for each case that can have it. The score is None if something is missing."""
    kind, _, k = name.partition("@")
    if name in AMOUNTS:
        field, times = AMOUNTS[name]
        needs, cases = f"the column {field}", side.cases
        there = {case: one for case, one in cases.items() if getattr(one, field) is not None}
        known = {case: getattr(one, field) * times for case, one in there.items()}
    else:
        needs = "the columns context_ids and gold_chunk_ids"
        cases = {case: one for case, one in _judged(side, kind).items() if one.gold_chunk_ids}
        there = {case: one for case, one in cases.items() if one.retrieved or one.nothing_retrieved}
        known = _joint(there, int(k)) if kind == JOINT else _ranked(there, RETRIEVAL[kind], int(k))
    if not there:
        raise InputError(
            f"{side.name}: {name} needs {needs}, which no row has; evaluate a file that has this, with another --out"
        )
    found = {}
    for case, one in cases.items():
        status = "ok" if case in known else one.status if case in there else f"failed: without {needs}"
        judge = one.judge if kind == JOINT else None
        found[case] = replace(one, metric=name, score=known.get(case), status=status, claims=None, judge=judge)
    return found


def _judged(side: Side, kind: str) -> Mapping[str, Judged]:
    """Return an answer of each case. For JOINT it has its score by the metric of FAITHFULNESS."""
    if kind != JOINT:
        return side.cases
    metric = metric_of(FAITHFULNESS, side.judged)
    if metric is None:
        raise InputError(f"{side.name}: {JOINT} needs a metric of faithfulness, such as rag_zeval@contexts")
    return side.judged[metric]


def _ranked(cases: Mapping[str, Judged], measure: str, k: int) -> dict[str, float]:
    rankings = [Ranking(one.retrieved, dict.fromkeys(one.gold_chunk_ids, 1), None) for one in cases.values()]
    return dict(zip(cases, values(rankings, [k])[measure, k], strict=True)) if cases else {}


def _joint(cases: Mapping[str, Judged], k: int) -> dict[str, float]:
    return {
        case: float((one.score or 0) >= SUPPORTED_FROM and not set(one.gold_chunk_ids).isdisjoint(one.retrieved[:k]))
        for case, one in cases.items()
        if one.score is not None or one.nothing_retrieved
    }
