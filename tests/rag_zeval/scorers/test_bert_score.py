from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_bert import WINDOW, write_bert

from eval_benchmarks.__main__ import main
from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.scorers.bert_score import LAYERS, BertScore, match

torch = pytest.importorskip("torch")
VECTORS = st.lists(st.lists(st.floats(-1, 1, width=16), min_size=3, max_size=3), min_size=1, max_size=5)


def cosine(first: list[float], second: list[float]) -> float:
    norm = math.hypot(*first) * math.hypot(*second)
    return sum(a * b for a, b in zip(first, second, strict=True)) / norm if norm else 0.0


def by_hand(
    ours: list[list[float]], theirs: list[list[float]], ours_count: list[bool], theirs_count: list[bool]
) -> tuple[float, float]:
    """Zhang et al. 2020, equations for P and R: every pair of tokens, one by one."""
    best = [max(cosine(one, other) for other in theirs) for one in ours]
    best_theirs = [max(cosine(one, other) for one in ours) for other in theirs]
    p = [value for value, counts in zip(best, ours_count, strict=True) if counts]
    r = [value for value, counts in zip(best_theirs, theirs_count, strict=True) if counts]
    return (sum(p) / len(p), sum(r) / len(r)) if p and r else (0.0, 0.0)


@settings(max_examples=30)
@given(VECTORS, VECTORS, st.data())
def test_matching_is_the_best_of_all_pairs(ours: list[Any], theirs: list[Any], data: st.DataObject) -> None:
    counts = [data.draw(st.lists(st.booleans(), min_size=len(v), max_size=len(v))) for v in (ours, theirs)]
    texts = [
        (torch.nn.functional.normalize(torch.tensor(v, dtype=torch.float64), dim=-1), torch.tensor(c))
        for v, c in zip((ours, theirs), counts, strict=True)
    ]
    found = match(texts[0], texts[1])
    assert found == pytest.approx(by_hand(ours, theirs, *counts), abs=1e-9)
    assert match(texts[1], texts[0]) == pytest.approx(found[::-1], abs=1e-12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("bert"))


def test_answers_are_scored_by_the_states_of_the_models_own_layer(folder: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    def states(text: str) -> list[list[float]]:
        with torch.no_grad():
            out = AutoModel.from_pretrained(folder).eval()(
                **AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt"), output_hidden_states=True
            )
        vectors: list[list[float]] = out.hidden_states[LAYERS["bert", 12]][0].double().tolist()
        return vectors

    answers, reference = ("ann was born", "the red wine", "born ann"), "ann was born"
    example = Example("x", "q", reference, (*answers, "a" * (WINDOW - 1)))
    scorer = BertScore(str(folder))
    (scored,) = scorer.score([example])
    theirs = states(reference)
    for answer, value, parts in zip(answers, scored.values, scored.parts["answers"], strict=False):
        ours = states(answer)
        counts = [[False, *[True] * (len(text) - 2), False] for text in (ours, theirs)]
        expected = by_hand(ours, theirs, *counts)
        assert (parts["precision"], parts["recall"]) == pytest.approx(expected, abs=1e-5)
        assert value == pytest.approx(2 * expected[0] * expected[1] / sum(expected), abs=1e-5)
    assert scored.values[0] == pytest.approx(1, abs=1e-6)
    assert scored.scores[3].status == f"failed: text needs {WINDOW + 1} tokens, the model's window is {WINDOW}"
    assert scored.values[3] is None and scored.calls == 0
    assert BertScore(str(folder)).identity == scorer.identity


def test_each_score_is_that_of_the_package_by_the_same_model(folder: Path) -> None:
    recorded = json.loads((Path(__file__).parent / "parity" / "bert_score.json").read_text())
    examples = [Example(one["id"], "", one["truth"], (one["answer"],)) for one in recorded["instances"]]
    ours = {scored.id: scored.values[0] for scored in BertScore(str(folder)).score(examples)}
    theirs = recorded["scores"]["bert_score"]
    assert len(theirs) > 40 and len(set(theirs.values())) > 30
    assert ours == pytest.approx(theirs, abs=1e-6)


def test_no_mean_with_a_value_below_0_is_a_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_zeval.scorers.bert_score.match", lambda *_: (0.5, -0.1))
    (scored,) = BertScore(str(folder)).score([Example("x", "q", "r", ("a",))])
    assert scored.scores[0].value is None and scored.scores[0].status.startswith("failed: harmonic mean")


def test_a_model_whose_layer_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no layer is known for bert with 2 layers"):
        BertScore(str(write_bert(tmp_path, 2)))


def test_the_bench_leaves_it_out_without_a_folder_and_runs_it_with_one(
    folder: Path, write_ragchecker: Any, tmp_path: Path, capsys: Any
) -> None:
    def short(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row["gt_answer"], row["model1"]["response"], row["model2"]["response"] = "ann was born", "ann", "wine"

    words = [f"data_dir={write_ragchecker(4, change=short, shipped=False)}", "bootstrap.draws=20"]
    words += ["benchmarks=[ragchecker_meta]", f"out_dir={tmp_path / 'out'}", "scorers=[bleu,bert_score]"]
    assert main(words) == 0
    assert "left out: bert_score: bert_score.model is not a folder with a model" in capsys.readouterr().out
    assert main([*words, f"bert_score.model={folder}"]) == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert {row["coverage"] for row in summary if row["scorer"] == "bert_score"} == {1}
