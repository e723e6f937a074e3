"""The scorers `original:MEASURE`: each runs a measure of an original package in that package's own environment."""

from __future__ import annotations

import json
import math
import subprocess
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval_benchmarks.originals.packages import ORIGINALS, PREFIX, ROOT, Original
from eval_benchmarks.originals.proxy import CountingProxy
from rag_zeval.files import file_sha256
from rag_zeval.judge.example import Example
from rag_zeval.models.endpoint import Endpoint
from rag_zeval.scorers.score import Score, Scored, Scorer, costs
from rag_zeval.secrets import environment_for_others
from rag_zeval.text import one_line

PROCESSES = 4  # at most, for a package; each process loads it anew
ENDED = "failed: the package's process ended, or took too long"  # the next run tries such a row again


class OriginalScorer(Scorer):
    """A measure of ORIGINALS, with a model behind an endpoint. Its replies are counted, and cached in the file `cache`.

    timeout: seconds for an answer. After that its process is killed, and the answer fails.
    """

    def __init__(
        self, name: str, chat: Endpoint, embeddings: Endpoint | None, cache: Path, timeout: float, trial: int = 0
    ):
        self.name, self._original = name, ORIGINALS[name]
        self.needs = self._original.needs
        self._chat, self._embeddings = chat, embeddings if self._original.embeds else None
        self._cache, self._timeout, self._trial = cache, timeout, trial
        package = f"{file_sha256(self._original.lock)} {file_sha256(self._original.script)}"
        self.identity = f"{name} {package} {chat.identity} trial {trial}"
        self.identity += f" {embeddings.identity}" if embeddings and self._original.embeds else ""
        self.prompt_hash = None  # the prompts are the package's own

    def judge(self, examples: Iterable[Example]) -> Iterator[Scored]:
        examples = list(examples)
        runners: list[Runner] = []
        of_thread = threading.local()

        def add_runner() -> None:
            of_thread.runner = Runner(self._original, self._chat.name, self._timeout)
            runners.append(of_thread.runner)

        with CountingProxy(self._chat, self._embeddings, self._cache, self._trial) as proxy:

            def score_one(example: Example) -> Scored:
                return self._score(example, of_thread.runner, proxy)

            count = max(1, min(PROCESSES, self._chat.at_once, len(examples)))
            pool = ThreadPoolExecutor(count, initializer=add_runner)
            try:
                for future in as_completed([pool.submit(score_one, example) for example in examples]):
                    yield future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                for runner in runners:
                    runner.stop()
                pool.shutdown()
                for runner in runners:
                    runner.end()

    def _score(self, example: Example, runner: Runner, proxy: CountingProxy) -> Scored:
        asked = {
            "id": example.id,
            "question": example.question,
            "reference": example.reference,
            "truth": example.truth or example.reference,
            "chunks": list(example.chunks) or [example.reference],
            "url": proxy.url(example.id),
            "embeddings": self._embeddings.name if self._embeddings else None,
        }
        scores = tuple(runner.score({**asked, "answer": answer}) for answer in example.answers)
        scored = Scored(example.id, scores, **costs(proxy.take(example.id)))
        return replace(scored, final=scored.final and all(score.status != ENDED for score in scores))


class Runner:
    """A process in a package's environment. It starts at the first request, and again after it has ended."""

    def __init__(self, original: Original, model: str, timeout: float):
        measure = original.name.removeprefix(PREFIX)
        self._command = [str(original.python), str(original.script), measure, model]
        self._timeout = min(timeout, threading.TIMEOUT_MAX)
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def score(self, instance: dict[str, Any]) -> Score:
        """Score one answer. If the package fails, ends or takes too long, only this answer has no score."""
        if self._stopped:
            return Score(None, "failed: stopped")
        process = self._process = self._process or subprocess.Popen(
            self._command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment_for_others(),
            encoding="utf-8",
            errors="replace",
        )
        assert process.stdin and process.stdout
        limit = threading.Timer(self._timeout, process.kill)
        limit.start()
        try:
            process.stdin.write(json.dumps(instance) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        finally:
            limit.cancel()
        if not line.endswith("\n"):  # nothing, or a reply that a kill cut off
            self.end()
            return Score(None, ENDED)
        reply = json.loads(line)
        value = reply.get("score")
        if "failed" in reply or value is None or math.isnan(value):
            return Score(None, f"failed: {one_line(reply.get('failed') or 'the package gives no score')}")
        return Score(float(value))

    def stop(self) -> None:
        """Kill the process, and start no other. The answer that it is scoring fails."""
        self._stopped = True
        if (process := self._process) is not None:
            process.kill()

    def end(self) -> None:
        """Kill the process, and wait until it has ended."""
        if (process := self._process) is not None:
            self._process = None
            process.kill()
            process.communicate()
