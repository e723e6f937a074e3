"""How many labels a scorer saves."""

from pathlib import Path
from typing import Any

import numpy as np

from eval_benchmarks.__main__ import main as bench
from experiments.label_savings import main as label_savings


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
