import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from eval_benchmarks.__main__ import main
from eval_benchmarks.benchmark import Benchmark, Metric, mean_metric
from eval_benchmarks.datasets.nano_eval import NanoEval
from eval_benchmarks.output.summary import KEYS
from eval_benchmarks.trials import Trial
from rag_zeval.files import read_jsonl
from rag_zeval.judge.example import Example
from rag_zeval.judge.prompt import EVIDENCE
from rag_zeval.literal_judge import literal_reply, read_prompt
from rag_zeval.results import SPENT
from rag_zeval.scorers.score import Score, Scored
from rag_zeval.scripted_judge import SPOILED, ScriptedJudge
from rag_zeval.stages import world


class BenchRun:
    """Runs the stage in this process into the folder `out`, with the same first words each time."""

    def __init__(self, out: Path, *words: str) -> None:
        self.out, self.words = out, words

    def __call__(self, *words: str) -> int:
        """The exit status."""
        return main([f"out_dir={self.out}", "bootstrap.draws=100", *self.words, *words])

    def summary(self, out: Path | None = None) -> dict[tuple[str, str | None, str], dict[str, Any]]:
        """Its rows by scorer, model and metric, without their seconds, of which two runs differ."""
        text = ((out or self.out) / "summary.json").read_text()
        rows = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
        assert all(list(row) == KEYS for row in rows)
        assert all((row.pop("seconds") is None) == (not row["calls"] and not row["cached"]) for row in rows)
        return {(row["scorer"], row["model"], row["metric"]): row for row in rows}

    def rows(self, name: str, out: Path | None = None) -> list[dict[str, Any]]:
        """The rows of the one row file that has `name` in its own."""
        (path,) = ((out or self.out) / "rows").glob(f"*{name}*")
        return [row for row in read_jsonl(path) if row["id"] != SPENT]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The folder of a run."""
    return tmp_path / "out"


@pytest.fixture
def write_wikieval(tmp_path: Path) -> Any:
    """Writes a row for each dict, which changes the usual one, to data/wikieval/<name>; the data folder."""

    def write(*changes: dict[str, Any], name: str = "rows.jsonl") -> Path:
        path = tmp_path / "data" / "wikieval" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(wikieval_row(i) | change) + "\n" for i, change in enumerate(changes)))
        return tmp_path / "data"

    return write


def wikieval_row(number: int) -> dict[str, Any]:
    return {
        "question": f"Question: What is {number}?",
        "answer": f"Answer: {number} is good",
        "context_v1": [f"{number} is good", "indeed"],
        "poor_answer": f"{number} is poor'",
        "ungrounded_answer": f"{number} is ungrounded",
    }


class Pairs(Benchmark):
    """A benchmark of so many examples with two answers; it measures the mean score of the first, and of the second."""

    name, data_hash = "pairs", "hash"

    def __init__(self, n: int) -> None:
        self.examples = [Example(str(i), "q", "r", (f"first {i}", f"second {i}")) for i in range(n)]

    def metrics(self, scored: Mapping[str, Scored]) -> list[Metric]:
        values = [scored[example.id].values if example.id in scored else (None, None) for example in self.examples]
        return [mean_metric(name, [pair[place] for pair in values]) for place, name in enumerate(("first", "second"))]


@pytest.fixture(scope="session")
def pairs() -> type[Pairs]:
    return Pairs


@pytest.fixture(scope="session")
def score_by() -> Any:
    """Scored examples of a benchmark by id: example number i has the scores values(i), or none; `fields` of all."""

    def score(benchmark: Any, values: Callable[[int], Sequence[float | None] | None], **fields: Any) -> Any:
        scored = {}
        for number, example in enumerate(benchmark.examples):
            scores = tuple(map(Score, values(number) or [None] * len(example.answers)))
            scored[example.id] = Scored(example.id, scores, **fields)
        return scored

    return score


@pytest.fixture(scope="session")
def make_trial() -> Any:
    """A trial of a scorer with a model; its row file is named by both and the number."""

    def make(benchmark: Any, scored: Any, scorer: str = "judge", model: str | None = "M", number: int = 0) -> Trial:
        return Trial(benchmark, scorer, model, f"rows/{scorer}-{model}-{number}.jsonl", "", "hash", scored, number)

    return make


def with_verdicts(body: dict[str, Any], supports: Callable[[int, str], bool]) -> str:
    """The literal judge's reply, but `supports` says of an answer's place and a claim about it what the verdict is."""
    candidates = json.loads(literal_reply(body) or "")
    for place, candidate in enumerate(candidates):
        for claim in candidate["atomic_claims"]:
            claim |= {"is_supported": supports(place, claim["claim"]), EVIDENCE: ["quoted"]}
    return json.dumps(candidates)


class NanoJudge:
    """Judges the nano world as a scripted judge's replies; the model's name says how.

    perfect: the truth; yes: everything is supported; fenced: the truth inside a Markdown fence; prose: no JSON;
    refusing: HTTP 400.
    """

    def __init__(self, truth: dict[str, Any], server: ScriptedJudge) -> None:
        self.truth, self.server = truth, server
        self.as_perfect: set[str] = set()
        server.replies = self.reply

    @property
    def asked(self) -> Counter[str]:
        return Counter(request["model"] for request in self.server.requests)

    def spec(self, model: str) -> str:
        return self.server.spec(model)

    def models(self, *models: str) -> str:
        """The command line word that names these models."""
        return f"models={[self.spec(model) for model in models]}"

    def reply(self, body: dict[str, Any]) -> str | dict[str, Any]:
        model = "perfect" if body["model"] in self.as_perfect else body["model"]
        if model == "refusing":
            return {"status": 400, "body": {"error": {"message": "not today"}}}
        facts = self.truth[read_prompt(body["messages"][0]["content"])[1]["reference"]]
        text = with_verdicts(body, lambda _, claim: model == "yes" or world.claim_is_true(claim, facts) is True)
        return {"fenced": SPOILED["fenced"](text), "prose": "They are all fine."}.get(model, text)


NANO = {"n": 12, "seed_ranked": 1, "seed_pairs": 2}


@pytest.fixture
def first_is_right(scripted_judge: ScriptedJudge) -> ScriptedJudge:
    """A judge that supports whatever it is shown first."""
    scripted_judge.replies = lambda body: with_verdicts(body, lambda place, _: place == 0)
    return scripted_judge


@pytest.fixture
def judge_server(scripted_judge: ScriptedJudge) -> NanoJudge:
    benchmark = NanoEval(**NANO)
    questions = [ranked.question for ranked in (*benchmark.ranked, *benchmark._pairs)]
    return NanoJudge({question.passage: question.facts for question in questions}, scripted_judge)


@pytest.fixture
def run(out: Path) -> BenchRun:
    """A run of what the words say."""
    return BenchRun(out)


@pytest.fixture
def nano(out: Path) -> BenchRun:
    """A run of nano_eval on the examples that `judge_server` knows."""
    words = [f"nano_eval.{key}={value}" for key, value in NANO.items()]
    return BenchRun(out, "benchmarks=[nano_eval]", "nano_eval.variant=compact", *words)


@pytest.fixture
def wikieval(write_wikieval: Any, out: Path) -> Any:
    """A run of wikieval on the rows of `write_wikieval`."""

    def make(*changes: dict[str, Any]) -> BenchRun:
        return BenchRun(out, "benchmarks=[wikieval]", f"data_dir={write_wikieval(*changes)}")

    return make


@pytest.fixture
def literal(literal_judge: ScriptedJudge, write_ragchecker: Any, out: Path) -> Any:
    """A run of ragchecker_meta with so many instances, judged by `literal_judge`."""

    def make(instances: int, change: Any = None) -> BenchRun:
        data = f"data_dir={write_ragchecker(instances, change=change)}"
        return BenchRun(out, "benchmarks=[ragchecker_meta]", data, f"models=['{literal_judge.spec()}']")

    return make
