"""Two runs of synthesize beside each other: what differs, and how right the answers are."""

import json
from pathlib import Path

import pytest

from experiments.cad_mixing import mixing_table
from rag_zeval.errors import InputError


def write_run(run: Path, mixing: str | None, texts: dict[float, list[str]], gold: str = "yes") -> Path:
    """mixing: None is a run from before it could be chosen."""
    run.mkdir()
    (run / "manifest.json").write_text(json.dumps({"config": {} if mixing is None else {"mixing": mixing}}))
    rows = [
        {
            "id": f"{at}",
            "status": "ok",
            "gold_answers": [gold],
            "responses": [{"alpha": a, "text": of[at], "true_support": None} for a, of in texts.items()],
        }
        for at in range(len(texts[0]))
    ]
    rows.append({"id": "failed", "status": "failed: too long"})
    (run / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


def test_answers_that_differ_and_gold_answers_are_counted_by_alpha(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", None, {-1.4: ["no", "no", "no", "yes"], 0: ["yes", "yes", "no", "no"]})
    second = write_run(
        tmp_path / "b", "probabilities", {-1.4: ["yes", "yes", "no", "no"], 0: ["yes", "yes", "no", "no"]}
    )
    table = mixing_table(first, second)
    plain, away = table.lines
    assert [cell.split()[0] for cell in (*plain[1:], *away[1:])] == [
        *("4", "0.000", "0.500", "0.500", "+0.000"),
        *("4", "0.750", "0.250", "0.500", "+0.250"),
    ]
    assert (plain[0], away[0]) == ("α = 0", "α = -1.4")
    with pytest.raises(InputError, match="mixes probabilities, expected logits"):
        mixing_table(second, first)
    other = write_run(tmp_path / "c", "probabilities", {0: ["yes"]})
    with pytest.raises(InputError, match="does not answer the same questions"):
        mixing_table(first, other)
    other = write_run(tmp_path / "d", "probabilities", {0: ["yes"] * 4})
    with pytest.raises(InputError, match="does not have the same values of alpha"):
        mixing_table(first, other)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("manifest.json", "{}", r"manifest\.json: field 'config' is missing"),
        ("responses.jsonl", '{"id": "1", "status": "ok"}\n', r"responses\.jsonl:1: field 'responses' is missing"),
        ("responses.jsonl", '{"id": "1", "status": "failed"}\n', r"responses\.jsonl: no question was answered"),
    ],
)
def test_a_folder_that_is_no_run_is_one_line(tmp_path: Path, file: str, content: str, message: str) -> None:
    runs = [write_run(tmp_path / mixing, mixing, {0: ["yes"]}) for mixing in ("logits", "probabilities")]
    (runs[1] / file).write_text(content)
    with pytest.raises(InputError, match=message):
        mixing_table(*runs)
