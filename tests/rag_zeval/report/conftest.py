"""Result rows to be reported, and a real browser to open the page in."""

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_zeval.files import Row, json_line

FLAGS = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
LOUD = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
KEYS = {"Enter": ("\r", 13), "Escape": ("", 27)}


class Browser:
    """Chromium with one window, driven over a pipe by its DevTools protocol: JSON, a zero byte behind each."""

    def __init__(self, profile: Path):
        from_us, to_us = os.pipe(), os.pipe()
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (from_us[0], to_us[1])]

        def place() -> None:  # it reads from 3 and writes to 4
            for number, end in enumerate(theirs, 3):
                os.dup2(end, number)

        command = ["chromium", *FLAGS.split(), f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(command, preexec_fn=place, pass_fds=(3, 4), stderr=subprocess.DEVNULL)  # noqa: PLW1509
        for end in (from_us[0], to_us[1], *theirs):
            os.close(end)
        self._to, self._from = from_us[1], to_us[0]
        self._last, self._read, self._session = 0, b"", {}
        self.events: list[Row] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Performance.enable", timeDomain="threadTicks")

    def call(self, method: str, **parameters: Any) -> Row:
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters, **self._session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: Row = answer["result"]
        return result

    def _next(self) -> Row:
        while b"\0" not in self._read:
            block = os.read(self._from, 1 << 20)
            assert block, "the browser has gone"
            self._read += block
        one, _, self._read = self._read.partition(b"\0")
        message: Row = json.loads(one)
        return message

    def open(self, page: Path, width: int = 1400, height: int = 900, scheme: str = "light") -> None:
        """Open a page and wait until it is there and drawn."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        self.wait()

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression, or of what it promises."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, milliseconds: int = 0) -> None:
        """Until two frames are drawn, after some time."""
        frames = "requestAnimationFrame(() => requestAnimationFrame(done))"
        self.run(f"new Promise((done) => setTimeout(() => {frames}, {milliseconds}))")

    def press(self, *keys: str) -> None:
        for key in keys:
            text, code = KEYS.get(key, (key, 0))
            for kind in ("keyDown", "keyUp"):
                written = {"text": text} if text and kind == "keyDown" else {}
                self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **written)
        self.wait()

    def choose(self, control: str, value: object) -> None:
        """Set a select, by its option's text, or a checkbox, as a user does."""
        self.run(
            f"""(() => {{
              const control = document.getElementById({json.dumps(control)}), value = {json.dumps(value)};
              if (control.type === "checkbox") control.checked = value;
              else control.value = [...control.options].find((option) => option.text === value).value;
              control.dispatchEvent(new Event("change", {{ bubbles: true }}));
            }})()"""
        )

    def search(self, words: str) -> None:
        self.run(f"document.getElementById('search').value = {json.dumps(words)}")
        self.run("document.getElementById('search').dispatchEvent(new Event('input', { bubbles: true }))")
        self.wait(300)

    def texts(self, selector: str) -> list[str]:
        """The texts of the elements that are shown, in the order of the page."""
        shown = "(element) => element.checkVisibility()"
        found: list[str] = self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].filter({shown}).map((one) => one.textContent)"
        )
        return found

    def ids(self) -> list[str]:
        """The cases of the list, in its order; all of them where the window is high."""
        return self.texts("#list .id")

    @property
    def problems(self) -> list[Row]:
        """Errors of the page's script, and what its policy forbade."""
        return [event for event in self.events if event["method"] in LOUD]

    @property
    def cpu_seconds(self) -> float:
        """What the page's thread has worked since the page was asked for: other work on the machine does not count."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))

    def close(self) -> None:
        self._session = {}
        self.call("Browser.close")
        self.process.wait(30)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def claim(text: str, supported: bool = True, *quotes: str) -> Row:
    return {"claim": text, "is_supported": supported, "grounding_evidence": list(quotes), "analysis": "Clear."}


@pytest.fixture
def make_claim() -> Callable[..., Row]:
    return claim


@pytest.fixture
def make_row() -> Callable[..., Row]:
    """A result row of one answer, or of as many as `claims` has lists; the rest by name."""

    def make(case: str, claims: list[list[Row] | None] | None = None, **changes: Any) -> Row:
        claims = [[claim("It is so.", True, "It is so.")]] if claims is None else claims
        scores = [sum(one["is_supported"] for one in of) / len(of) if of else None for of in claims]
        statuses = ["ok" if score is not None else "failed: no claims" for score in scores]
        row = {
            "id": f"{changes.get('systems', '')}{case}|{changes.get('metric', 'rag_zeval')}#{changes.get('trial', 0)}",
            "case": case,
            "slice_tag": None,
            "metric": "rag_zeval",
            "trial": 0,
            "systems": ["answer", "other", "third"][: len(claims)],
            "question": f"Question {case}?",
            "reference": "It is so. It was so.",
            "reference_kind": "contexts",
            "answers": [f"Answer {at} to {case}." for at in range(len(claims))],
            "scores": scores,
            "statuses": statuses,
            "status": statuses[0],
            "trajectory": [{"id": "ABC"[at], "atomic_claims": of or []} for at, of in enumerate(claims)],
            "reply": None,
            "parts": {},
            "calls": 1,
            "cached": 0,
            "prompt_tokens": 10,
            "completion_tokens": None,
            "seconds": 0.4,
            "latency_s": None,
            "model": "openai:judge@http://localhost/v1",
            "variant": "paper",
            "prompt_hash": "abc",
            "sampling": {"temperature": 0.0},
        }
        return {**row, **changes}

    return make


@pytest.fixture
def write_rows(tmp_path: Path) -> Callable[[list[Row]], Path]:
    def write(rows: list[Row]) -> Path:
        path = tmp_path / "results.jsonl"
        path.write_bytes(b"".join(map(json_line, rows)))
        return path

    return write


@pytest.fixture
def write_page(write_rows: Callable[[list[Row]], Path], tmp_path: Path) -> Callable[[list[Row]], Path]:
    """The page of rows that were read from a result file."""
    from rag_zeval.report.html import write_report
    from rag_zeval.results import SHOWN, ResultFile

    def write(rows: list[Row]) -> Path:
        write_report(tmp_path / "report.html", ResultFile(write_rows(rows), SHOWN))
        return tmp_path / "report.html"

    return write
