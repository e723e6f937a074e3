"""What people can label, the claims or the answers of a result file, and a sample of it by strata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from rag_zeval.cases.case import NO_SLICE
from rag_zeval.errors import InputError
from rag_zeval.results import Judged, read_judged

CLAIM, ANSWER = UNITS = ("claim", "answer")
BANDS = 4  # of equal width, that scores from 0 to 1 fall into


@dataclass(frozen=True)
class Item:
    """An answer, or one claim of it (None where it is about the answer), that a person is asked about.

    id: a hash of what the item is, so that it says nothing of the score and no other text goes by it. sources: what it
    is to be judged by, as names in words and texts. score: the judge's, from 0 to 1; of a claim 1 (supported) or 0.
    analysis: what the judge wrote of the claim.
    """

    id: str
    case: str
    slice: str
    question: str
    sources: tuple[tuple[str, str], ...]
    answer: str
    claim: str | None
    score: float
    analysis: str

    @property
    def stratum(self) -> str:
        """The band of its score, and its slice."""
        band = min(int(self.score * BANDS), BANDS - 1)
        return f"{band / BANDS:.2f} to {(band + 1) / BANDS:.2f}, {self.slice}"


@dataclass(frozen=True)
class Population:
    """All items of one metric, and how many of its answers have none: no score, or no claim."""

    metric: str
    items: list[Item]
    without: int


def read_items(path: str | Path, unit: str, metric: str | None = None) -> Population:
    """What people can label of a result file by one metric; the metric need not be named if only one has such items.

    unit: "claim" or "answer". Raises InputError as `read_judged`, for a metric that the file lacks, and for answers'
    scores outside of 0 to 1.
    """
    judged = read_judged(path)
    metrics = list(dict.fromkeys(one.metric for one in judged if unit == ANSWER or one.claims is not None))
    if not metrics:
        raise InputError(f"{path}: no metric in it has claims: add --unit answer to label whole answers")
    if metric is None and len(metrics) == 1:
        metric = metrics[0]
    if metric not in metrics:
        raise InputError(f"{path}: --metric must be one of {', '.join(metrics)}; found {metric}")
    answers = [one for one in judged if one.metric == metric]
    for one in answers if unit == ANSWER else ():
        if one.score is not None and not 0 <= one.score <= 1:
            raise InputError(f"{path}: case '{one.case}': {metric} is {one.score:g}, must be from 0 to 1")
    items = [list((_claims if unit == CLAIM else _answer)(one)) for one in answers]
    population = Population(metric, [item for some in items for item in some], sum(not some for some in items))
    if not population.items:
        raise InputError(f"{path}: no answer has a {'claim' if unit == CLAIM else 'score'} by {metric}")
    return population


def _claims(judged: Judged) -> Iterator[Item]:
    for number, claim in enumerate(judged.claims or ()):
        yield _item(judged, number, claim["claim"], float(claim["is_supported"]), claim["analysis"])


def _answer(judged: Judged) -> Iterator[Item]:
    if judged.score is not None:
        yield _item(judged, None, None, judged.score, "")


def _item(judged: Judged, number: int | None, claim: str | None, score: float, analysis: str) -> Item:
    identity = json.dumps([judged.metric, judged.case, judged.system, judged.answer, number, claim])
    # a letter first: a spreadsheet would make a number of 123456789012 or 12e3456789
    id_ = "r" + hashlib.sha256(identity.encode()).hexdigest()[:12]
    slice_ = NO_SLICE if judged.slice_tag is None else judged.slice_tag
    sources = tuple(judged.sources)
    return Item(id_, judged.case, slice_, judged.question, sources, judged.answer, claim, score, analysis)


def draw(items: Sequence[Item], n: int, seed: int) -> list[tuple[Item, float]]:
    """A stratified sample of n items (all, if there are fewer), each with its probability of being in it, in (0, 1].

    Each stratum is sampled without replacement, with the rows of `allocate`, so the probability is rows / items of the
    stratum: weighted by its inverse, a sum over the sample is an unbiased estimate of the sum over all items (Horvitz
    and Thompson 1952, JASA 47, 663-685). The order is that of the ids, which has nothing to do with scores. Raises
    InputError if n is less than the number of strata.
    """
    strata: dict[str, list[Item]] = {}
    for item in sorted(items, key=lambda item: item.id):
        strata.setdefault(item.stratum, []).append(item)
    if n < len(strata):
        raise InputError(
            f"--n {n} is too small: there are {len(strata)} strata (score band and slice), "
            "and each needs at least one row"
        )
    random = Random(seed)
    drawn = []
    names = sorted(strata)
    for name, rows in zip(names, allocate([len(strata[name]) for name in names], n), strict=True):
        drawn += [(item, rows / len(strata[name])) for item in random.sample(strata[name], rows)]
    return sorted(drawn, key=lambda pair: pair[0].id)


def allocate(sizes: Sequence[int], n: int) -> list[int]:
    """Of n rows, those of each stratum: one each, the others in proportion to the items that are left.

    sizes: items of the strata, none empty; n: at least as many as strata. Rounded by largest remainders, so that the
    rows add up to n, or to all items where they are fewer. Proportional allocation: Cochran 1977, Sampling Techniques,
    chapter 5; without the row that each stratum gets, a rare slice or band may have none.
    """
    left = sum(sizes) - len(sizes)
    more = min(n - len(sizes), left)
    shares = [divmod(more * (size - 1), left) if left else (0, 0) for size in sizes]
    rows = [1 + whole for whole, _ in shares]
    by_remainder = sorted(range(len(sizes)), key=lambda at: -shares[at][1])
    for at in by_remainder[: more + len(sizes) - sum(rows)]:
        rows[at] += 1
    return rows
