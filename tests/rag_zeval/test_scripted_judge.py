import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag_zeval.documents.questions import KINDS, QuestionPrompt
from rag_zeval.judge.evaluator import Evaluator
from rag_zeval.judge.prompt import VARIANTS
from rag_zeval.literal_judge import LITERAL, literal_reply, word_vector
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.language_model import Request
from rag_zeval.models.open import open_backend
from rag_zeval.scorers.asking import ScorerPrompt
from rag_zeval.scripted_judge import SPOILED, ScriptedJudge

ROOT = Path(__file__).parents[2]
RIGHT = {"verdict": 1, "reason": "It's so."}


def text(spec: str, prompt: str) -> str | None:
    ((_, reply),) = as_finished(open_backend(spec).complete, [Request(({"role": "user", "content": prompt},))], 1)
    return reply.text


@pytest.mark.parametrize("fault", SPOILED)
def test_a_spoiled_reply_is_still_a_reply_and_no_longer_plain_json(scripted_judge: Any, fault: str) -> None:
    scripted_judge.replies, scripted_judge.faults = json.dumps(RIGHT), [fault]
    spoiled = SPOILED[fault](json.dumps(RIGHT))
    assert text(scripted_judge.spec(), "x") == (spoiled or None)  # an empty text is none
    with pytest.raises(ValueError):
        json.loads(spoiled, parse_constant=int)
    assert isinstance(SPOILED[fault]("[[Yes]]"), str)  # a reply that is no JSON can be spoiled as well


def test_texts_with_words_in_common_are_near_each_other() -> None:
    def product(a: str, b: str) -> float:
        return sum(x * y for x, y in zip(word_vector(a), word_vector(b), strict=True))

    assert product("where was Ann born", "Where was Bob born") > product("where was Ann born", "red wine tastes")


def memory(process: int) -> int:
    """KiB that a process has in memory."""
    return int(re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())[0])


def test_by_hand_it_reads_replies_and_faults_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "replies.json").write_text(json.dumps({"first": RIGHT, "second": "plain"}))
    words: list[Any] = ["--replies", tmp_path / "replies.json", "--faults", "ok,fenced"]
    handled = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # `pytest &` ignores it
    started = f"{handled}; import sys; sys.argv[1:1] = ['mock-judge']; from rag_zeval.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", started, *words], cwd=ROOT, text=True, stdout=-1, stderr=-1
    ) as process:
        try:
            assert process.stdout and process.stderr
            found = re.match(r"mock judge: --model (openai:judge@\S+/v1) ", process.stdout.readline())
            assert found
            replies = [text(found[1], prompt) for prompt in ("the first", "the second", "a third")]
            assert replies == [json.dumps(RIGHT), SPOILED["fenced"]("plain"), None]
            before = memory(process.pid)
            long = [Request(({"role": "user", "content": f"first {n} {'x' * 500_000}"},)) for n in range(100)]
            texts = {reply.text for _, reply in as_finished(open_backend(found[1]).complete, long, 8)}
            assert texts == {json.dumps(RIGHT)}
            assert memory(process.pid) - before < 30 * 1024  # of 50 MB that came
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0 and process.stderr.read() == ""
        finally:
            process.kill()


def test_by_the_letter_it_knows_every_prompt_and_no_other(scripted_judge: ScriptedJudge) -> None:
    scripted_judge.replies = literal_reply
    found = Evaluator(open_backend(scripted_judge.spec())).evaluate(
        "q", "It rains. It is cold.", ["It rains. It is hot."]
    )
    assert (found.status, found.scores) == ("ok", [0.5])
    assert text(scripted_judge.spec(), "another prompt") is None
    stored = [path.stem for kind in (ScorerPrompt, QuestionPrompt) for path in kind.folder.glob("*.txt")]
    assert {*LITERAL} <= {*stored, *VARIANTS} and all(LITERAL[name] for name in stored)


@pytest.mark.parametrize("replies", [literal_reply, {"first": "so"}])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        *(("chat/completions", body) for body in (b"", b"no JSON", b"[1]", b"{}", b'{"messages": []}')),
        ("chat/completions", b'{"messages": [{"content": [{"type": "text", "text": "first"}]}]}'),
        *(("embeddings", body) for body in (b"{}", b'{"input": null}', b'{"input": [1]}')),
    ],
)
def test_a_request_that_it_cannot_read_is_refused(
    scripted_judge: ScriptedJudge, replies: Any, path: str, body: bytes
) -> None:
    scripted_judge.replies = replies
    answer = httpx.post(f"{scripted_judge.url}/{path}", content=body)
    assert answer.status_code == 400 and "no reply" in answer.json()["error"]["message"]


def test_it_finds_nothing_to_ask_about_passages_without_a_sentence() -> None:
    for kind in KINDS.values():
        for passages in (["...", "It rains."], ["It rains.", ".."], ["[1]", ""]):
            inputs = {"passages": passages} if kind.chunks > 1 else {"passage": "...", "asked": []}
            prompt = kind.prompt.template.replace("{inputs}", json.dumps(inputs))
            reply = literal_reply({"messages": [{"role": "user", "content": prompt}]})
            assert reply is not None and json.loads(reply)["question"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--faults", "429,hank"], "unknown fault 'hank'"), (["--replies", __file__], "not valid JSON")],
)
def test_what_it_cannot_use_is_refused(words: list[str], message: str, run: Any) -> None:
    done = run("mock-judge", *words)
    assert done.returncode == 2 and message in done.stderr
