import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from eval_benchmarks.benchmark import Metric
from eval_benchmarks.datasets.ragchecker_meta import KINDS, RagcheckerMeta
from eval_benchmarks.datasets.wikieval import Wikieval, clean
from eval_benchmarks.output.published import PUBLISHED
from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.scorers.overlap import Bleu, RougeL
from rag_zeval.scorers.score import Scored, Scorer

SHIPPED = {"pearson": 0.497, "spearman": 0.469, "kendall": 0.372}  # of RAGChecker's own claim precision
needs_data = pytest.mark.skipif(not os.environ.get("RAG_ZEVAL_DATA"), reason="RAG_ZEVAL_DATA names no data folder")


def public_data() -> Path:
    return Path(os.environ["RAG_ZEVAL_DATA"])


def values(metrics: Iterable[Metric]) -> dict[str, float]:
    return {m.name: m.value for m in metrics}


def scored_by(scorer: Scorer, examples: list[Example]) -> dict[str, Scored]:
    return {scored.id: scored for scored in scorer.score(examples)}


@needs_data
def test_the_published_lexical_rows_and_the_shipped_scores_come_out_to_three_decimals() -> None:
    benchmark = RagcheckerMeta(public_data())
    assert len(benchmark.examples) == 280
    scorers: list[Scorer] = [Bleu(), RougeL(), *benchmark.shipped]
    found = {s.name: values(benchmark.metrics(scored_by(s, benchmark.examples))) for s in scorers}
    for kind in KINDS:
        for name in ("bleu", "rouge_l"):
            assert round(found[name][kind], 3) == PUBLISHED["ragchecker_meta", name, kind]
        assert round(found["ragchecker_shipped"][kind], 3) == SHIPPED[kind]
        assert found["bleu"][f"{kind}_missing_as_median"] == found["bleu"][kind]  # nothing is missing


@needs_data
def test_the_published_wikieval_values_come_out_on_the_whole_set() -> None:
    benchmark = Wikieval(public_data())
    for scorer in (Bleu(), RougeL()):
        metrics = benchmark.metrics(scored_by(scorer, benchmark.examples))
        assert {m.n for m in metrics} == {len(benchmark.examples) // 2}
        assert not any('"' in e.question or e.answers[0].endswith("'") for e in benchmark.examples)
        if len(benchmark.examples) == 2 * 50:
            for name, value in values(metrics).items():
                assert round(value, 3) == PUBLISHED.get(("wikieval", scorer.name, name), round(value, 3))


def test_a_missing_score_leaves_both_rows_out_and_is_the_median_in_the_authors_convention(
    write_ragchecker: Any, score_by: Any
) -> None:
    benchmark = RagcheckerMeta(write_ragchecker(13))
    scored = score_by(benchmark, lambda i: (0.0, None if i == 3 else float(i) ** 2))
    del scored["7"]
    metrics = {m.name: m for m in benchmark.metrics(scored)}
    assert metrics["pearson"].n == 11
    kept = [i for i in range(13) if i not in (3, 7)]
    x, labels = np.array([i**2 for i in range(13)], float), benchmark.labels
    for kind, test in (("pearson", stats.pearsonr), ("kendall", stats.kendalltau)):
        assert metrics[kind].value == pytest.approx(test(np.repeat(x[kept], 2), labels[kept].ravel()).statistic)
    x[[3, 7]] = np.median(x[kept])
    filled = metrics["spearman_missing_as_median"]
    assert filled.scored.all()
    expected = stats.spearmanr(np.repeat(x, 2), labels.ravel()).statistic
    assert filled.value == pytest.approx(expected)


def test_shipped_scores_belong_to_their_answers(write_ragchecker: Any) -> None:
    (shipped,) = RagcheckerMeta(write_ragchecker()).shipped
    assert all(0 < value < 1 for s in shipped.score([Example("3", "", "", ("", ""))]) for value in s.values if value)

    def swap(rows: list[dict[str, Any]]) -> None:
        for row in rows[4:6]:
            row["model1"], row["model2"] = row["model2"], row["model1"]

    with pytest.raises(InputError, match=r"baseline_ragchecker\.json: row 2: field 'response'.* instance 2 "):
        RagcheckerMeta(write_ragchecker(change=swap))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[5].pop("gt_answer"), r"row 5: field 'gt_answer' is missing"),
        (lambda rows: rows[5]["model2"].update(response=None), r"row 5: model2: field 'response' must be str"),
        (lambda rows: rows[4].update(correctness_label=3), r"row 4: field 'correctness_label' must be -2 to 2"),
        (lambda rows: rows[4].update(correctness_label=True), r"row 4: field 'correctness_label' must be int"),
        (lambda rows: rows[4].update(query="other"), r"row 5: field 'instance_id': 2 has different texts"),
        (lambda rows: rows.pop(), r"field 'instance_id': 11 has 1 rows, expected 2"),
        (lambda rows: rows.clear(), r"the list is empty"),
    ],
)
def test_bad_rows_are_named(write_ragchecker: Any, change: Any, message: str) -> None:
    with pytest.raises(InputError, match=r"human_labeled_data\.json:? ?.*" + message):
        RagcheckerMeta(write_ragchecker(change=change, shipped=False))


def test_wikieval_compares_the_answer_with_both_negatives_in_alternating_order(
    write_wikieval: Any, score_by: Any
) -> None:
    benchmark = Wikieval(write_wikieval(*[{}] * 4))
    first, second = benchmark.examples[0], benchmark.examples[2]
    assert (first.question, first.reference) == ("What is 0?", "0 is good\nindeed")
    assert first.answers == ("0 is good", "0 is poor")
    assert second.answers == ("1 is poor", "1 is good")
    likes = {"good": 2.0, "poor": 2.0, "ungrounded": 1.0}
    scored = score_by(benchmark, lambda i: [likes[answer[5:]] for answer in benchmark.examples[i].answers])
    found = values(benchmark.metrics(scored))
    assert [found[f"poor_answer/pairwise_{name}"] for name in ("best", "middle", "worst")] == [1.0, 0.5, 0.0]
    assert [found[f"ungrounded_answer/pairwise_{name}"] for name in ("best", "middle", "worst")] == [1.0] * 3


def test_wikieval_leaves_missing_scores_out(write_wikieval: Any, score_by: Any) -> None:
    benchmark = Wikieval(write_wikieval(*[{}] * 4))
    assert benchmark.examples[2].id == "1-poor_answer"
    scored = score_by(benchmark, lambda i: (None, 0.0) if i == 2 else (0.0, 1.0))
    del scored["2-poor_answer"]
    metric = benchmark.metrics(scored)[0]
    assert metric.scored.tolist() == [True, False, False, True]
    assert metric.value == 0.5  # the good answer stands first in 0, second in 3


def test_a_sample_beside_the_whole_set_counts_once(write_wikieval: Any) -> None:
    write_wikieval(*[{}] * 2, name="sample.jsonl")
    benchmark = Wikieval(write_wikieval(*[{}] * 5, name="wikieval.jsonl"))
    assert len(benchmark.examples) == 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"poor_answer": None}, r"rows\.jsonl:2: field 'poor_answer' must be str, found NoneType"),
        ({"context_v1": []}, r"rows\.jsonl:2: field 'context_v1' must be"),
    ],
)
def test_bad_wikieval_rows_are_named(write_wikieval: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Wikieval(write_wikieval({}, change))


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("Answer: It is.", "It is."),
        ("The film's a bomb.'", "The film's a bomb."),
        ("It was 'good'", "It was 'good'"),
        ('"Half quoted', "Half quoted"),
        ("India's", "India's"),
    ],
)
def test_clean_drops_the_prefix_and_the_stray_quote_only(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned
    assert clean(cleaned) == cleaned


def test_nan_in_the_shipped_file_is_a_missing_score(write_ragchecker: Any) -> None:
    path = write_ragchecker() / "ragchecker_meta" / "baseline_ragchecker.json"
    text = path.read_text()
    value = text.split('"correctness_label": ')[1].split("}")[0]
    path.write_text(text.replace(value, "NaN", 1))
    benchmark = RagcheckerMeta(path.parent.parent)
    scored = scored_by(benchmark.shipped[0], benchmark.examples)
    assert scored["0"].values[0] is None
    assert not any(math.isnan(value) for s in scored.values() for value in s.values if value is not None)
