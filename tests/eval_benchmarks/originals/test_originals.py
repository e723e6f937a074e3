"""Rows of original packages: a package in a process of its own, here a script, asks through the counting proxy."""

import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from eval_benchmarks.both_orders import SUFFIX
from eval_benchmarks.originals.packages import ORIGINALS, PREFIX, Original
from eval_benchmarks.originals.proxy import CountingProxy
from eval_benchmarks.originals.scorer import OriginalScorer
from rag_zeval.judge.example import Example
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.scorers.registry import MEASURES
from rag_zeval.scorers.score import Score
from rag_zeval.scripted_judge import ScriptedJudge

PACKAGE = """
import json, os, sys, time, urllib.request
sys.path.insert(0, {protocol!r})
from protocol import serve

def load(measure, model):
    print("chatter on standard output")
    def score(instance):
        answer = instance["answer"]
        if answer == "crash":
            os._exit(3)
        if answer == "torn":
            os.write(3, b'{{"sco')
            os._exit(3)
        if answer == "hang":
            time.sleep(60)
        if answer == "none":
            return None
        body = {{"model": model, "messages": [{{"role": "user", "content": instance["question"] + answer}}]}}
        request = urllib.request.Request(instance["url"] + "/chat/completions", json.dumps(body).encode())
        return float(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
    return score

serve(load)
"""
NAME = f"{PREFIX}fake"
PROTOCOL = Path(__file__).resolve().parents[3] / "eval_benchmarks" / "originals"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run_fake.py"
    path.write_text(PACKAGE.format(protocol=str(PROTOCOL)))

    @dataclass(frozen=True)
    class Fake(Original):
        python = Path(sys.executable)
        script = lock = path

    monkeypatch.setitem(ORIGINALS, NAME, Fake(NAME, "fake", ("answer",)))  # type: ignore[arg-type]


def scorer(judge: ScriptedJudge, cache: Path, timeout: float = 30.0, trial: int = 0) -> OriginalScorer:
    backend = OpenAIBackend("judge", judge.url, max_retries=1, extra_body={"think": False})
    return OriginalScorer(NAME, backend, None, cache, timeout, trial)


def examples(*answers: str) -> list[Example]:
    return [
        Example(f"row {at}/{at}", f"question {at}?", "the reference", (answer, "b"))
        for at, answer in enumerate(answers)
    ]


@pytest.mark.usefixtures("package")
def test_what_a_package_asks_is_counted_by_example_and_asked_once(
    scripted_judge: ScriptedJudge, tmp_path: Path
) -> None:
    scripted_judge.replies = lambda body: "0.25" if body["messages"][0]["content"].endswith("a") else "0.75"
    rows = examples(*["a"] * 6)
    first = {row.id: row for row in scorer(scripted_judge, tmp_path / "kept.sqlite").score(rows)}
    assert set(first) == {example.id for example in rows}
    assert {row.values for row in first.values()} == {(0.25, 0.75)}
    assert {(row.calls, row.cached, row.prompt_tokens, row.completion_tokens, row.final) for row in first.values()} == {
        (2, 0, 14, 10, True)
    }
    assert [body["think"] for body in scripted_judge.requests] == [False] * 12
    again = list(scorer(scripted_judge, tmp_path / "kept.sqlite").score(rows))
    assert {(row.values, row.calls, row.cached, row.prompt_tokens) for row in again} == {((0.25, 0.75), 0, 2, 14)}
    assert len(scripted_judge.requests) == 12
    other = list(scorer(scripted_judge, tmp_path / "kept.sqlite", trial=1).score(rows[:1]))
    assert other[0].calls == 2 and len(scripted_judge.requests) == 14


@pytest.mark.usefixtures("package")
def test_a_bad_row_costs_itself_only(scripted_judge: ScriptedJudge, tmp_path: Path) -> None:
    scripted_judge.replies = "0.5"
    rows = examples("a", "crash", "none", "hang", "torn", "a")
    found = list(scorer(scripted_judge, tmp_path / "kept.sqlite", timeout=8).score(rows))
    scored = {row.id: row.scores for row in found}
    ended = Score(None, "failed: the package's process ended, or took too long")
    first = [scored[example.id][0] for example in rows]
    assert first == [Score(0.5), ended, Score(None, "failed: the package gives no score"), ended, ended, Score(0.5)]
    assert {scores[1] for scores in scored.values()} == {Score(0.5)}
    assert {row.id for row in found if not row.final} == {rows[at].id for at in (1, 3, 4)}  # the next run tries these


@pytest.mark.usefixtures("package")
def test_a_reply_that_does_not_come_leaves_the_row_to_the_next_run(
    scripted_judge: ScriptedJudge, tmp_path: Path
) -> None:
    scripted_judge.replies = "0.5"
    scripted_judge.faults = ["500", "500"]  # the first try and its only repetition
    [row] = scorer(scripted_judge, tmp_path / "kept.sqlite").score(examples("a"))
    assert row.values == (None, 0.5) and not row.final
    assert (row.calls, row.retries, row.failures) == (3, 1, 1) and "HTTP Error 400" in row.scores[0].status
    [again] = scorer(scripted_judge, tmp_path / "kept.sqlite").score(examples("a"))
    assert again.values == (0.5, 0.5) and again.final and (again.calls, again.cached) == (1, 1)


@pytest.mark.parametrize(
    ("secret", "headers"),
    [
        ("", {}),  # a program or page that found the port
        ("guessed/", {}),
        ("{secret}/", {"Origin": "https://evil.example"}),
        ("{secret}/", {"Host": "evil.example"}),
    ],
)
def test_nobody_else_spends_the_key(
    scripted_judge: ScriptedJudge, tmp_path: Path, secret: str, headers: dict[str, str]
) -> None:
    scripted_judge.replies = "0.5"
    body = json.dumps({"model": "judge", "messages": [{"role": "user", "content": "q"}]}).encode()
    backend = OpenAIBackend("judge", scripted_judge.url)
    with CountingProxy(backend, None, tmp_path / "kept.sqlite") as proxy:
        base, own = re.findall(r"(http://[^/]+/)(.+)/row/v1", proxy.url("row"))[0]
        url = f"{base}{secret.replace('{secret}', own)}row/v1/chat/completions"
        with pytest.raises(HTTPError, match="403"):
            urlopen(Request(url, body, headers))
        assert scripted_judge.requests == [] and proxy.take("row") == []
        urlopen(Request(f"{proxy.url('row')}/chat/completions", body))
        assert len(scripted_judge.requests) == len(proxy.take("row")) == 1
    with CountingProxy(backend, None, tmp_path / "kept.sqlite") as proxy:
        assert f"/{own}/" not in proxy.url("row")


def test_each_original_stands_for_a_measure_of_ours_and_has_its_files() -> None:
    for name, original in ORIGINALS.items():
        assert name.removeprefix(PREFIX) in MEASURES
        assert original.script.is_file() and original.lock.is_file()
        ours = MEASURES[name.removeprefix(PREFIX)]
        assert (original.embeds, "answer" in original.needs) == (ours.embeds, "answer" in ours.needs)


def test_a_dry_run_lists_what_the_run_then_does_and_both_leave_out_the_same(
    literal_judge: Any, write_ragchecker: Any, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """Such as a package whose installation was interrupted."""
    from eval_benchmarks.__main__ import main

    monkeypatch.setattr("eval_benchmarks.originals.packages.ROOT", tmp_path)
    python = tmp_path / ".venv-parity-trulens/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    judges, vectors = [literal_judge.spec(name) for name in ("one", "two")], literal_judge.spec("vectors")
    words = [f"out_dir={tmp_path / 'bench'}", f"data_dir={write_ragchecker(2)}", f"models={judges}"]
    words += ["benchmarks=[ragchecker_meta,nano_eval]", "nano_eval.n=2", "bootstrap.draws=20", "judge.trials=2"]
    words += [f"embeddings.model='{vectors}'", "judge.swapped=true"]
    scorers = "embedding_similarity,bleu,hhem,ragas_faithfulness,rag_zeval,is_correct"
    words.append(f'scorers=[{scorers},"original:trulens_groundedness"]')
    assert main([*words, "dry_run=true"]) == 0
    planned = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert main(words) == 0
    manifest = json.loads((tmp_path / "bench" / "manifest.json").read_text())
    rows = [row for row in manifest["rows"] if not row["benchmark"].endswith(SUFFIX)]
    ran = Counter((row["benchmark"], row["scorer"], row["model"] or "-") for row in rows)
    names = ("ragchecker_meta", "nano_eval")
    assert {tuple(line[:3]): int(line[4]) for line in planned if line[:1] and line[0] in names} == ran
    left_out = [" ".join(line) for line in planned if line[:2] == ["left", "out:"]]
    assert left_out == [note for note in manifest["notes"] if note.startswith("left out: ")]
    missing = "original:trulens_groundedness: its environment is missing; run `make .venv-parity-trulens/.ready`"
    assert left_out.count(f"left out: {missing}") == 1 and len({*left_out}) == len(left_out)
