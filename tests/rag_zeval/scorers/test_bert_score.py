import json
from math import nan
from pathlib import Path
from statistics import harmonic_mean
from typing import Any

import pytest
from tiny_bert import WINDOW, write_bert

from eval_benchmarks.__main__ import main
from rag_zeval.errors import InputError
from rag_zeval.judge.example import Example
from rag_zeval.scorers.bert_score import BertScore

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("bert"))


def test_precision_and_recall_change_places_with_the_texts(folder: Path) -> None:
    texts, scorer = ("ann was born", "the red wine"), BertScore(str(folder))
    examples = [Example(one, "q", one, (other,)) for one, other in (texts, texts[::-1])]
    there, back = scorer.score(examples)
    ((first,), (second,)) = there.parts["answers"], back.parts["answers"]
    assert first["precision"] == pytest.approx(second["recall"]) != pytest.approx(first["recall"])
    assert there.values == back.values == (pytest.approx(harmonic_mean(first.values()), abs=1e-6),)


def test_a_text_longer_than_the_window_has_no_score(folder: Path) -> None:
    (scored,) = BertScore(str(folder)).score([Example("x", "q", "ann", ("ann", "a" * (WINDOW - 1)))])
    assert scored.values == (pytest.approx(1, abs=1e-6), None) and scored.calls == 0
    assert scored.scores[1].status == f"failed: text needs {WINDOW + 1} tokens, the model's window is {WINDOW}"


def test_special_tokens_do_not_count_where_a_text_spells_them(folder: Path) -> None:
    (scored,) = BertScore(str(folder)).score([Example("x", "q", "ann", ("[SEP]", "[CLS]", "[CLS]a[SEP]"))])
    assert scored.values[:2] == (0, 0) and scored.values[2] not in (0, None)


def test_each_score_is_that_of_the_package_by_the_same_model(folder: Path) -> None:
    recorded = json.loads((Path(__file__).parent / "parity" / "bert_score.json").read_text())
    examples = [Example(one["id"], "", one["truth"], (one["answer"],)) for one in recorded["instances"]]
    ours = {scored.id: scored.values[0] for scored in BertScore(str(folder)).score(examples)}
    theirs = recorded["scores"]["bert_score"]
    assert len(theirs) > 40 and len(set(theirs.values())) > 30
    assert ours == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize(("recall", "reason"), [(-0.1, "harmonic mean"), (nan, "the model's vectors are not finite")])
def test_no_mean_with_a_value_below_0_or_not_a_number_is_a_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch, recall: float, reason: str
) -> None:
    monkeypatch.setattr("rag_zeval.scorers.bert_score.match", lambda *_: (0.5, recall))
    (scored,) = BertScore(str(folder)).score([Example("x", "q", "r", ("a",))])
    assert scored.scores[0].value is None and scored.scores[0].status.startswith(f"failed: {reason}")


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
