"""How many labels a scorer saves."""

from pathlib import Path
from typing import Any

import numpy as np

from eval_benchmarks.__main__ import main as bench
from eval_benchmarks.bench_settings import RunSettings
from eval_benchmarks.datasets.registry import find_benchmark
from eval_benchmarks.trials import Trial
from experiments.label_savings import items_and_labels
from experiments.label_savings import main as label_savings
from rag_zeval.csv_files import sheet_text
from rag_zeval.scorers.score import Score, Scored
from rag_zeval.stages.config import check_settings, load_config


def test_a_scorer_that_agrees_with_people_saves_labels(write_ragchecker: Any, tmp_path: Path, capsys: Any) -> None:
    random = np.random.default_rng(0)

    def as_rouge_says(rows: list[dict[str, Any]]) -> None:
        """People prefer the answer that repeats more of the truth."""
        better_of = {row["instance_id"]: int(random.integers(2)) for row in rows}
        for row in rows:
            row["gt_answer"], better = "ann was born in rome", better_of[row["instance_id"]]
            row[f"model{better + 1}"]["response"], row[f"model{2 - better}"]["response"] = row["gt_answer"], "wine"
            row["correctness_label"] = 2 if better else -2

    data = write_ragchecker(80, change=as_rouge_says, shipped=False)
    out = tmp_path / "out"
    words = [f"data_dir={data}", "bootstrap.draws=20", "benchmarks=[ragchecker_meta]", f"out_dir={out}"]
    assert bench([*words, "scorers=[rouge_l]"]) == 0
    capsys.readouterr()
    assert label_savings([str(out), "--n", "20", "--draws", "20"]) == 0
    *_, row = capsys.readouterr().out.strip().splitlines()
    name, scorer, pairs, tau, alone, corrected, saved, covers = (cell.strip() for cell in row.strip("|").split("|"))
    assert (name, scorer, pairs, tau) == ("ragchecker_meta", "rouge_l", "80", "1.000")
    assert float(corrected) < float(alone) and float(saved.rstrip("%")) > 20 and float(covers) >= 0.9


def test_labelled_texts_belong_to_their_document_and_those_without_a_score_are_left_out(tmp_path: Path) -> None:
    scores = {"a1": 0.9, "a2": -0.2, "b1": None, "b2": 0.4}
    rows = [["Wice", claim[0], claim, str(at % 2), "x"] for at, claim in enumerate(scores)]
    (tmp_path / "aggrefact").mkdir()
    columns = ["dataset", "doc", "claim", "label", "contamination_identifier"]
    (tmp_path / "aggrefact" / "test.csv").write_text(sheet_text(columns, rows), encoding="utf-8")
    words = [f"data_dir={tmp_path}", "benchmarks=[aggrefact]"]
    benchmark, _ = find_benchmark("aggrefact")(check_settings(RunSettings, load_config("bench", words)))
    assert benchmark is not None
    scored = {one.id: Scored(one.id, tuple(Score(scores[text]) for text in one.answers)) for one in benchmark.examples}
    found = items_and_labels(Trial(benchmark, "s", None, "f", "i", None, scored))
    assert found is not None
    items, labels = found
    assert [(item.case, item.score) for item in items] == [("0", 0.9), ("0", 0.0), ("1", 0.4)]
    assert labels.tolist() == [0.0, 1.0, 1.0]
