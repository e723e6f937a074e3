"""Sorts answers into classes of failure, by their scores and by the rank of their gold chunks in the retrieval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag_zeval.cases.case import Case, by_slice, edited
from rag_zeval.errors import InputError
from rag_zeval.golden.kinds import CORRECTNESS, FAITHFULNESS, metric_of
from rag_zeval.results import Judged
from rag_zeval.scorers.registry import lower_is_better

NOT_RETRIEVED = "wrong, not retrieved"
BELOW_K = "wrong, retrieved below k"
IN_PROMPT = "wrong, in the prompt"
UNSUPPORTED = "right, without support"
SUPPORTED = "right and supported"
NOT_KNOWN = "not known"
CLASSES = (NOT_RETRIEVED, BELOW_K, IN_PROMPT, UNSUPPORTED, SUPPORTED, NOT_KNOWN)


@dataclass(frozen=True)
class Metrics:
    """The names of the two metrics that decide whether an answer is right (`correct`) and supported (`supported`).

    threshold: the minimum score that counts as right or supported.
    """

    correct: str
    supported: str
    threshold: float = 0.5


@dataclass(frozen=True)
class Classified:
    """An answer, its class and the values that decided it.

    answer: None if the system has no result for the case. correct, supported: scores, None if missing. gold_rank: rank
    of the first gold chunk in the retrieval, from 1; None if none was retrieved or if that is not known. why: what is
    missing if the class is NOT_KNOWN, else "".
    """

    case: str
    system: str
    slice_tag: str | None
    question: str
    answer: str | None
    truth: str | None
    correct: float | None
    supported: float | None
    gold_rank: int | None
    class_name: str
    why: str


@dataclass(frozen=True)
class Share:
    """The share of a system's answers in a slice that are in a class.

    count: number of answers in the class. of: number of answers whose class is known; for NOT_KNOWN, of all answers.
    interval: Wilson's 95% interval; None if `of` is 0.
    """

    system: str
    slice_name: str
    class_name: str
    count: int
    of: int
    interval: tuple[float, float] | None


def choose_metrics(judged: Sequence[Judged], correct: str | None, supported: str | None, threshold: float) -> Metrics:
    """Choose the metrics that decide the classes.

    correct, supported: by default the metric of correctness and of faithfulness, as the dashboard chooses them (see
    `golden.kinds`). Raises InputError if the results do not have such a metric, and for a metric for which lower is
    better.
    """
    there = list(dict.fromkeys(one.metric for one in judged))

    def choose(option: str, name: str | None, kind: Sequence[str], called: str) -> str:
        chosen = name or metric_of(kind, there)
        if chosen is None:
            raise InputError(
                f"the results have no metric of {called}, only {', '.join(there)}. Run `rag-zeval evaluate` with "
                f"--against both, or name a metric with {option}"
            )
        if chosen not in there:
            raise InputError(f"{option}: the results have no metric {name}; they have {', '.join(there)}")
        if lower_is_better(chosen):
            raise InputError(
                f"{option}: the lower {chosen} is, the better: name a metric that is high for a good answer"
            )
        return chosen

    of_truth = choose("--correct", correct, CORRECTNESS, "correctness")
    return Metrics(of_truth, choose("--supported", supported, FAITHFULNESS, "faithfulness"), threshold)


def classify(judged: Sequence[Judged], cases: Sequence[Case], metrics: Metrics, k: int | None) -> list[Classified]:
    """Classify each judged answer, and each case that a system has no result for.

    cases: with `context_ids` and `gold_chunk_ids`. k: how many retrieved contexts were in the prompt; None means all. A
    wrong answer is IN_PROMPT if a gold chunk was among them. The class of a right answer does not depend on its gold
    chunks. A class is NOT_KNOWN if a score that it needs is missing, or if question or ground truth were edited since
    the answer was judged. That of a wrong answer is also NOT_KNOWN if chunk ids are missing, or if `cases` does not
    have the judged answer. Raises InputError if no case was judged.
    """
    of_case: dict[str, list[Case]] = {}
    for case in cases:
        of_case.setdefault(case.id, []).append(case)
    rows: dict[tuple[str, str], dict[str, Judged]] = {}
    for one in judged:
        rows.setdefault((one.system, one.case), {})[one.metric] = one
    if not any(id_ in of_case for _, id_ in rows):
        raise InputError("the results and these files have no case in common: their ids differ")
    found = [_classified(by_metric, of_case.get(id_, []), metrics, k) for (_, id_), by_metric in rows.items()]
    for system in dict.fromkeys(system for system, _ in rows):
        for id_, (case, *_) in of_case.items():
            if (system, id_) not in rows:
                found.append(
                    Classified(
                        id_, system, case.slice_tag, case.question, None, case.truth, None, None, None, NOT_KNOWN,
                        "no result",
                    )
                )  # fmt: skip
    return found


def _classified(by_metric: Mapping[str, Judged], cases: Sequence[Case], metrics: Metrics, k: int | None) -> Classified:
    one = next(iter(by_metric.values()))
    correct, supported = by_metric.get(metrics.correct), by_metric.get(metrics.supported)
    own_first = sorted(cases, key=lambda case: one.system not in case.answers)
    case = next((case for case in own_first if one.answer in case.answers.values()), None)
    rank = _gold_rank(case) if case else None
    name, why = NOT_KNOWN, ""
    edits = [field for field in edited(one.golden, case.golden) if field != "gold_chunk_ids"] if case else []
    if edits:
        why = f"the file has a different {' and '.join(edits)} than the one that was judged"
    elif correct is None or correct.score is None:
        why = f"{metrics.correct}: {correct.status if correct else 'no row'}"
    elif correct.score >= metrics.threshold:
        if supported is None or supported.score is None:
            why = f"{metrics.supported}: {supported.status if supported else 'no row'}"
        else:
            name = SUPPORTED if supported.score >= metrics.threshold else UNSUPPORTED
    elif case is None:
        why = "the file has a different answer than the one that was judged" if cases else "no such case"
    elif not case.gold_chunk_ids or not (case.context_ids or case.nothing_retrieved):
        why = "no context_ids" if case.gold_chunk_ids else "no gold_chunk_ids"
    elif rank is None:
        name = NOT_RETRIEVED
    else:
        name = IN_PROMPT if k is None or rank <= k else BELOW_K
    return Classified(
        one.case, one.system, one.slice_tag, one.question, one.answer, case.truth if case else None,
        correct.score if correct else None, supported.score if supported else None, rank, name, why,
    )  # fmt: skip


def _gold_rank(case: Case) -> int | None:
    return next((rank for rank, id_ in enumerate(case.context_ids, 1) if id_ in case.gold_chunk_ids), None)


def shares(classified: Sequence[Classified]) -> list[Share]:
    """Return the share of every class for each system: over all its answers, then by slice."""
    from rag_zeval.statistics.bootstrap import share_interval  # loads numpy

    found = []
    for system in dict.fromkeys(one.system for one in classified):
        of_system = [one for one in classified if one.system == system]
        for slice_name, members in by_slice(of_system, lambda one: one.slice_tag):
            counts = {name: sum(one.class_name == name for one in members) for name in CLASSES}
            for name, count in counts.items():
                of = len(members) - (counts[NOT_KNOWN] if name != NOT_KNOWN else 0)
                interval = share_interval(count, of) if of else None
                found.append(Share(system, slice_name, name, count, of, interval))
    return found
