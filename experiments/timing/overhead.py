"""The cost of the harness itself: `python -m experiments.timing.overhead [ROWS [PAIRS]]`.

It times a run of the bench stage against a bare loop of the `openai` client over the same prompts. The bench builds
prompts, makes one call per row with RAG-Zeval, parses replies, writes and reads rows, and computes statistics. Both
call a server on this machine that answers at once, with 64 open requests.

The command prints each pair of times, the median of their ratios, and the peak memory of this process. The two times of
a pair are measured one directly after the other. They are wall-clock time, and CPU time of this process, which depends
little on other programs. With 0 PAIRS it runs only the harness, once: `100000 0` measures memory.
"""

import asyncio
import json
import multiprocessing
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console

from eval_benchmarks.bench import score
from eval_benchmarks.benchmark import Benchmark, Metric, mean_metric
from eval_benchmarks.jobs import ScoringJob
from eval_benchmarks.output.summary import summary_rows
from eval_benchmarks.trials import BenchResults, Trial, group_trials
from experiments.timing.pairs import Side, timed
from rag_zeval.judge.evaluator import Evaluator
from rag_zeval.judge.example import Example
from rag_zeval.models.language_model import Sampling
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.progress import Progress
from rag_zeval.scorers.rag_zeval import RagZeval
from rag_zeval.scorers.score import Scored
from rag_zeval.statistics.bootstrap import DRAWS
from rag_zeval.streams import command_line

OPEN = 64  # concurrent requests
ROWS, PAIRS = 2_000, 3
CLAIM = {"claim": "A claim.", "is_supported": True, "grounding_evidence": ["a town"], "analysis": "It says so."}
REPLY = json.dumps([{"id": id_, "answer": f"Answer {id_}.", "atomic_claims": [CLAIM] * 3} for id_ in "AB"])


class FillerText(Benchmark):
    """A benchmark of `n` examples, each with a question, a passage of about 600 characters and two answers."""

    name, data_hash = "filler_text", "none"

    def __init__(self, n: int):
        passage = " ".join(["This is a passage about a town and its river."] * 13)
        answers = (" ".join(["The town has a river."] * 6), " ".join(["The town has no river."] * 6))
        self.examples = [
            Example(str(at), f"What is there in town {at}?", f"{at}. {passage}", (f"{at}: {answers[0]}", answers[1]))
            for at in range(n)
        ]

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        return [mean_metric("support", [scored[example.id].values[0] for example in self.examples])]


def run_harness(benchmark: Benchmark, url: str, out: Path) -> None:
    """Run the bench stage once, from the benchmark to its table."""
    scorer = RagZeval(OpenAIBackend("judge", url, concurrency=OPEN), None, Sampling())
    job = ScoringJob(benchmark, scorer, "judge")
    with Progress(Console(stderr=True, force_terminal=False)) as progress:
        scored = score(job, out / job.file, progress)
    trial = Trial(benchmark, scorer.name, job.model, job.file, scorer.identity, None, scored)
    rows = summary_rows(BenchResults(group_trials([trial]), DRAWS // 10))
    assert all(row["coverage"] == 1 for row in rows)


def prompts_of(benchmark: Benchmark, url: str) -> list[Any]:
    """Return the messages that the harness sends for each row."""
    evaluator = Evaluator(OpenAIBackend("judge", url))
    return [list(evaluator.request(example).messages) for example in benchmark.examples]


def run_bare(prompts: Sequence[Any], url: str) -> None:
    """Run the client alone, on finished prompts."""

    async def loop() -> None:
        import openai

        todo = iter(prompts)
        async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:

            async def work() -> None:
                for messages in todo:
                    completion = await client.chat.completions.create(model="judge", messages=messages)
                    assert completion.choices[0].message.content == REPLY

            await asyncio.gather(*(work() for _ in range(OPEN)))

    asyncio.run(loop())


def serve(socket_number: int) -> None:
    """Answer every request at once, until killed."""
    import uvicorn

    message = {"role": "assistant", "content": REPLY}
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "judge",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    }
    content = json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]

    async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    uvicorn.run(answer, fd=socket_number, log_level="error", lifespan="off")


@contextmanager
def server() -> Iterator[str]:
    """Run `serve` in its own process and yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = multiprocessing.get_context("fork").Process(target=serve, args=[listening.fileno()], daemon=True)
        process.start()  # a daemon: ends with this process at the latest
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            process.kill()


def seconds_of(side: Side) -> tuple[float, float]:
    """Return the seconds of a call: wall-clock time, and CPU time of this process."""
    before = time.process_time()
    seconds, _ = timed(side)
    return seconds, time.process_time() - before


def overhead(
    rows: Annotated[int, typer.Argument(min=1, help="The number of rows to judge.")] = ROWS,
    pairs: Annotated[int, typer.Argument(min=0, help="How often to time. 0 runs only the harness, once.")] = PAIRS,
) -> None:
    benchmark, ratios = FillerText(rows), list[tuple[float, float]]()
    with server() as url, tempfile.TemporaryDirectory() as folder:
        prompts = prompts_of(benchmark, url) if pairs else []

        def harness() -> None:
            run_harness(benchmark, url, Path(tempfile.mkdtemp(dir=folder)))

        run_bare(prompts_of(FillerText(OPEN), url), url)  # the server has started, and both sides have their imports
        for _ in range(pairs):
            (ours, our_cpu), (bare, bare_cpu) = seconds_of(harness), seconds_of(lambda: run_bare(prompts, url))
            ratios.append((ours / bare, our_cpu / bare_cpu))
            told = f"harness {ours:.2f} s, bare client {bare:.2f} s, ratio {ratios[-1][0]:.2f}"
            cpu = f"CPU time {our_cpu:.2f} s, {bare_cpu:.2f} s, ratio {ratios[-1][1]:.2f}"
            print(f"{rows} rows: {told}; {cpu}", flush=True)
        if ratios:
            by_clock, of_cpu = map(median, zip(*ratios, strict=True))
            print(f"median of {pairs} ratios: {by_clock:.2f}; of CPU time: {of_cpu:.2f}")
        else:
            print(f"{rows} rows: harness {timed(harness)[0]:.1f} s")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


main = command_line(overhead, "experiments.timing.overhead", __doc__)

if __name__ == "__main__":
    sys.exit(main())
