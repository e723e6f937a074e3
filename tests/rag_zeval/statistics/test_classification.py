"""Metrics of labelled texts against textbook versions, one text and one resample at a time."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_zeval.statistics.bootstrap import columns_of, drawn, multiplicities
from rag_zeval.statistics.classification import (
    Auroc,
    OfSums,
    balanced_accuracy,
    best_threshold,
    confusion,
    f1,
    f1_unsupported,
    precision,
    recall,
)

DRAWS, SEED = 50, 7
TEXTS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.booleans(), st.integers(0, 4), st.booleans()),
    min_size=1,
    max_size=25,
)


def auroc(values: Any, supported: Any) -> float:
    pairs = [(a > b) + (a == b) / 2 for a in values[supported] for b in values[~supported]]
    return float(np.mean(pairs)) if pairs else math.nan


def accuracy(values: Any, supported: Any, threshold: float = 0.5) -> float:
    shares = [np.mean((values >= threshold)[of] == label) if of.any() else math.nan for label, of in
              ((True, supported), (False, ~supported))]  # fmt: skip
    return float(np.mean(shares))


def f1_of(values: Any, supported: Any) -> float:
    found, there = values < 0.5, ~supported
    if not found.any() and not there.any():
        return math.nan
    return float(2 * (found & there).sum() / (found.sum() + there.sum()))


TEXTBOOK = {"auroc": auroc, "balanced_accuracy": accuracy, "f1_unsupported": f1_of}


def statistics(values: Any, supported: Any, clusters: Any) -> dict[str, Any]:
    counts = confusion(values >= 0.5, supported)
    return {
        "auroc": Auroc(values, supported, clusters),
        "balanced_accuracy": OfSums(counts, balanced_accuracy, clusters),
        "f1_unsupported": OfSums(counts, f1_unsupported, clusters),
    }


@given(TEXTS)
@settings(max_examples=40)
def test_values_and_draws_are_the_textbooks_with_whole_documents_drawn(texts: Any) -> None:
    values, supported, clusters, keep = (np.array(column) for column in zip(*texts, strict=True))
    if not keep.any():
        return
    documents = np.unique(clusters[keep])
    for name, statistic in statistics(values, supported, clusters).items():
        expected = TEXTBOOK[name]
        assert statistic.point(keep) == pytest.approx(expected(values[keep], supported[keep]), nan_ok=True)
        draws = []
        for times in multiplicities(len(documents), DRAWS, SEED).astype(int):
            taken = [
                at
                for document, often in zip(documents, times, strict=True)
                for at in [*np.flatnonzero(keep & (clusters == document))] * often
            ]
            draws.append(expected(values[taken], supported[taken]))
        assert drawn(statistic, keep, DRAWS, SEED) == pytest.approx(draws, nan_ok=True)


@given(TEXTS)
@settings(max_examples=60)
def test_no_threshold_is_better_than_the_best(texts: Any) -> None:
    values, supported, *_ = (np.array(column) for column in zip(*texts, strict=True))
    threshold = best_threshold(values, supported)
    if threshold is None:
        assert supported.all() or not supported.any()
        return
    tried = [accuracy(values, supported, at) for at in (-1.0, 0.1, 0.3, 0.6, 0.9, 2.0)]
    assert accuracy(values, supported, threshold) == pytest.approx(max(tried))
    assert threshold not in values  # half-way between two scores: rounding decides nothing


def test_f1_precision_and_recall_of_sums() -> None:
    sums = np.array([[3.0, 4.0, 6.0], [0.0, 0.0, 0.0]])
    for formula, value in ((precision, 3 / 4), (recall, 3 / 6), (f1, 6 / 10)):
        assert formula(sums) == pytest.approx([value, math.nan], nan_ok=True)


def test_clusters_are_numbered_as_they_are_kept() -> None:
    statistic = Auroc(np.zeros(5), np.ones(5, dtype=bool), np.array([7, 3, 7, 5, 3]))
    assert columns_of(statistic, np.array([True, False, True, True, False])).tolist() == [1, 1, 0]
