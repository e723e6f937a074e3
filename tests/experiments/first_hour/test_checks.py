"""The order of the checks, what is kept of them, and the report: on real processes that end as they are told."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.first_hour import checks as hour_checks
from experiments.first_hour.checks import CHECKS, HourCheck, run_alone, run_hour
from experiments.first_hour.scene import LANES, Scene
from rag_zeval.errors import InputError
from rag_zeval.files import read_json

Scenes = Callable[..., Scene]
FACTS = {"system": "one", "torch": "2.13.0"}
WORDS = {
    "good": "print('seen'); print('fine')",
    "other": "print('fine too')",
    "absent": "print('it needs a GPU'); raise SystemExit(3)",
    "bad": "print('seen'); print('too little of it'); raise SystemExit(1)",
    "crash": "import os, signal; print('about to', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
    "endless": "import time; time.sleep(600)",
}


@pytest.fixture
def hour(scene_of: Scenes, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.setattr(hour_checks.machine, "machine_facts", lambda gpus: dict(FACTS))
    started = scene_of().folder.parent / "started"

    def alone(name: str) -> list[str]:
        return [sys.executable, "-c", f"open({str(started)!r}, 'a').write('{name} ')\n{WORDS[name]}"]

    def run(*names: str, minutes: float = 5) -> int:
        return run_hour(scene_of(), alone, [HourCheck(name, f"{name}?", print, minutes) for name in names])

    return run


def test_the_first_failure_ends_the_hour(
    hour: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert hour("good", "absent", "bad", "other") == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == ("1 of 4 checks passed; FAILED: bad; 1 could not run here: absent; 1 not reached")
    assert any(line.startswith("bad: FAIL in ") and line.endswith("s: too little of it") for line in said)
    assert (tmp_path / "started").read_text() == "good absent bad "


def test_what_passed_is_not_run_again_on_the_same_machine(
    hour: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hour("good", "absent", "bad") == 1
    monkeypatch.setitem(WORDS, "bad", "print('mended')")
    assert hour("good", "absent", "bad", "other") == 0
    said = capsys.readouterr().out
    assert "good: PASS in an earlier run" in said
    assert said.splitlines()[-1] == "3 of 4 checks passed; 1 could not run here: absent"
    assert (tmp_path / "started").read_text() == "good absent bad " + "absent bad other "
    monkeypatch.setitem(FACTS, "torch", "2.14.0")
    assert hour("good") == 0
    assert (tmp_path / "started").read_text().endswith("other good ")


def test_the_report_has_machine_and_each_checks_last_lines(hour: Callable[..., int], tmp_path: Path) -> None:
    hour("good", "bad")
    report = (tmp_path / "hour" / "report.md").read_text()
    assert "| torch | 2.13.0 |" in report and "| checks | PROFILE=nano, on the CPU at nano scale |" in report
    assert "| `bad` | bad? | FAIL |" in report
    assert "## bad: FAIL\n\ntoo little of it\n\n```\nseen\ntoo little of it\n```" in report
    assert report.startswith("# The first hour\n\n1 of 2 checks passed; FAILED: bad.\n")


def test_a_process_that_dies_or_does_not_end_has_failed(hour: Callable[..., int], tmp_path: Path) -> None:
    assert hour("crash") == 1 == hour("endless", minutes=0.03)
    reasons = [row["reason"] for row in read_json(tmp_path / "hour" / hour_checks.RESULTS, list)]
    assert reasons == ["its process ended with -9: about to", "it did not end within 0.03 minutes"]


def test_on_a_cpu_these_cannot_run(scene_of: Scenes, capsys: pytest.CaptureFixture[str]) -> None:
    """What the GPU checks say here, each by its own code; `serve` needs vLLM alone."""
    cannot = {}
    for name in ("gpus", "kernels", "sleep", "serve", "first-steps"):
        assert run_alone(scene_of("paper"), name) == hour_checks.EXITS[hour_checks.CANNOT]
        cannot[name] = capsys.readouterr().out.strip()
    needs = "it needs a GPU; there is none here"
    vllm = "vLLM is not installed (make installs it for PROFILE=paper and PROFILE=single)"
    assert cannot == dict.fromkeys(cannot, needs) | {"serve": vllm}
    with pytest.raises(InputError, match=r"^only=sleeep: there is machine, gpus, "):
        run_alone(scene_of(), "sleeep")


def test_each_lane_has_its_checks() -> None:
    names = {lane: [check.name for check in CHECKS if lane in check.lanes] for lane in LANES}
    assert len(set(names["first-hour"])) == 12 and names["rehearsal"] == ["tiny-train", "own-precision", "serve"]


def test_a_rehearsal_empties_only_a_folder_of_its_own(tmp_path: Path) -> None:
    hour_checks.clear(tmp_path / "new")
    (tmp_path / "new" / "report.md").touch()
    hour_checks.clear(tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == [hour_checks.RESULTS]
    with pytest.raises(InputError, match="holds something other than a rehearsal"):
        hour_checks.clear(tmp_path)
