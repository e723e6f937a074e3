"""The report of a run: everything on it comes from the run's files, and text in them stays text."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.run_report import main, side_by_side, write_run_report
from synthesize.faithfulness import measure_faithfulness

BASE, HOSTILE = "a minus b", "<script>document.title='moved'</script>"


def summary_row(metric: str, model: str | None, value: float | None, **changes: object) -> dict[str, object]:
    known = {"benchmark": "nano_eval", "scorer": "rag_zeval", "ci_low": None, "ci_high": None, "n": 500}
    known |= {"coverage": 1.0, "calls": 1, "prompt_tokens": 1, "completion_tokens": 1, "published": None, "minus": None}
    if value is not None:
        known |= {"ci_low": value - 0.01, "ci_high": value + 0.01}
    return {**known, "metric": metric, "model": model, "value": value, **changes}


def compared(base: str, trained: str, metric: str, *values: float | None) -> list[dict[str, object]]:
    models = (base, None), (trained, None), (f"{trained} minus {base}", base)
    return [
        summary_row(metric, model, value, minus=minus) for (model, minus), value in zip(models, values, strict=True)
    ]


def alpha(value: float, support: float | None) -> dict[str, float | int | None]:
    known = {"alpha": value, "answers": 300, "n_tokens": 23.0, "unfinished": 0.0, "empty": 0.0, "repetition": None}
    return known | {"true_support": support, "true_support_low": support, "true_support_high": support}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    summary = compared(BASE, HOSTILE, "ranking_accuracy", 0.2, 0.3, 0.1)
    summary += compared(BASE, HOSTILE, "format_rate", 1.0, None, None)
    summary += [summary_row("pairwise_best", None, 0.5, scorer="bleu")]
    summary += [summary_row("pearson", None, 0.302, benchmark="ragchecker_meta", scorer="bleu", published=0.302)]
    logged = {"reward_extra/score/mean": 0.5, "reward_extra/claims/mean": 4.0, "reward_extra/claims_best/mean": 4.0}
    steps = [{"step": step, "data": logged} for step in range(1, 6)]
    statistics = {"answered": 300, "questions": 300, "identical": {"any": 0.5}, "strictly_ordered": 0.25}
    contents = {
        "synthesize/manifest.json": {"statistics": {**statistics, "by_alpha": [alpha(0, 0.9), alpha(-1.4, 0.1)]}},
        "train/manifest.json": {"steps": 5, "minutes": 3.21, "attempts": 2},
        "bench/summary.json": summary,
        "bench/manifest.json": {"notes": [f"left out: {HOSTILE}"]},
    }
    for place, content in contents.items():
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(json.dumps(content))
    (tmp_path / "train/metrics.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    return tmp_path


def test_base_and_trained_stand_side_by_side(run: Path) -> None:
    judges = side_by_side(json.loads((run / "bench/summary.json").read_text()), "nano_eval")
    assert [row["metric"] for row in judges] == ["ranking_accuracy", "format_rate"]
    assert [judges[0][key]["value"] for key in ("base", "trained", "difference")] == [0.2, 0.3, 0.1]
    assert side_by_side([summary_row("ranking_accuracy", BASE, 0.2)], "nano_eval") == []


def test_the_page_is_one_file_without_scripts(run: Path, read_tags: Any) -> None:
    page = write_run_report(run).read_text()
    tags = read_tags(page)
    assert "script" not in tags.seen and tags.seen.count("img") == len(tags.links) == 4
    assert all(link.startswith("data:image/png;base64,") for link in tags.links)
    assert "0.100 [0.090, 0.110]" in page and "0.302" in page and "50.0%" in page
    assert "5 steps of GRPO in 3.2 minutes,\n2 attempts." in page


@pytest.mark.parametrize("alphas", [1, 2])
def test_an_alpha_without_known_truth_has_a_dash_and_real_text_has_no_support_chart(run: Path, alphas: int) -> None:
    """alphas: of how many the answers have no known support."""
    path = run / "synthesize/manifest.json"
    manifest = json.loads(path.read_text())
    for at in manifest["statistics"]["by_alpha"][:alphas]:
        at.update(true_support=None, true_support_low=None, true_support_high=None)
    manifest["statistics"] |= {"strictly_ordered": None, "identical": {"any": None}}
    path.write_text(json.dumps(manifest))
    page = write_run_report(run).read_text()
    assert page.count("<img") == 5 - alphas
    cells = ["<td>0</td><td>300</td><td>–</td>", "<td>-1.4</td><td>300</td><td>0.100 [0.100, 0.100]</td>"]
    words = ["<th>true support", "true support is"]
    assert [text for text in (*cells, *words) if text in page] == ([*cells, *words] if alphas == 1 else [])
    assert "true support falls" not in page


def test_how_faithfulness_falls_stands_beside_alpha(run: Path) -> None:
    assert "all fall" not in write_run_report(run).read_text()  # a run from before it was measured
    path = run / "synthesize/manifest.json"
    answers = [{"alpha": 0, "text": "It has steps."}, {"alpha": -1.4, "text": "It fell."}]
    rows = [{"id": "q", "status": "ok", "passage": "It has steps.", "responses": answers}]
    path.write_text(json.dumps({**json.loads(path.read_text()), "faithfulness": measure_faithfulness(rows)}))
    page = write_run_report(run).read_text()
    assert "<th>words in the passage</th><th>ROUGE-L precision</th>" in page
    assert "<td>0</td><td>1.000 [0.207, 1.000]</td>" in page and "<td>0.500</td>" in page
    assert "<td>all fall</td><td>1.000 [0.207, 1.000]</td>" in page


def test_what_cannot_be_used_is_one_line_and_exit_2(run: Path, refusal: Any) -> None:
    (run / "report.html").mkdir()
    refusal(main, [str(run)])
    (run / "bench/summary.json").write_bytes(b"\xff")
    assert "summary.json: not UTF-8 text" in refusal(main, [str(run)])
    (run / "train/manifest.json").unlink()
    assert "train/manifest.json: is missing; the train stage writes it" in refusal(main, [str(run)])
