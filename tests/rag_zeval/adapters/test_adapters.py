"""Other tools' own objects take what the adapters make; where a tool is not installed its test is skipped."""

import asyncio
import importlib
import json
import math
import posixpath
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rag_zeval import Evaluator, open_backend
from rag_zeval.literal_judge import count_tokens, literal_reply
from rag_zeval.results import Judged
from rag_zeval.scripted_judge import ScriptedJudge

ADAPTERS = Path(__file__).parents[3] / "rag_zeval" / "adapters"
JUDGED = [
    Judged(str(n), "q", None, "new", "rag_zeval@contexts", "a", "r", score, "ok", ({"claim": "c"},), golden=golden)
    for n, (score, golden) in enumerate([(0.0, {}), (1.0, {"question": "1"}), (0.5, {"truth": "2"}), (None, {})])
]  # some questions have a ground truth, others not


@pytest.fixture
def judge(scripted_judge: ScriptedJudge) -> Evaluator:
    scripted_judge.replies, scripted_judge.count = literal_reply, count_tokens
    return Evaluator(open_backend(scripted_judge.spec()))


def test_adapters_are_short() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in ADAPTERS.glob("*.py")}
    assert len(lengths) > 4 and max(lengths.values()) < 35


def test_weights_and_biases_gets_means_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    from rag_zeval.adapters.wandb import log_results

    monkeypatch.setenv("WANDB_SILENT", "true")
    run = wandb.init(mode="offline", dir=tmp_path, project="p")
    log_results(JUDGED, run)
    summary = dict(run.summary)
    run.finish()
    assert summary["rag_zeval@contexts/new/mean"] == 0.5 and summary["rag_zeval@contexts/new/coverage"] == 0.75
    (table,) = tmp_path.rglob("answers*.table.json")
    rows = json.loads(table.read_text())
    score = rows["columns"].index("score")
    assert [row[score] for row in rows["data"]] == [0.0, 1.0, 0.5, None]


def test_mlflow_gets_means_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # the small package has no database
    from rag_zeval.adapters.mlflow import log_results

    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("e", artifact_location=str(tmp_path / "files")))
    with mlflow.start_run() as run:
        log_results(JUDGED)
    logged = mlflow.get_run(run.info.run_id).data.metrics
    assert logged["rag_zeval.contexts/new/mean"] == 0.5 and logged["rag_zeval.contexts/new/coverage"] == 0.75
    answers = json.loads(next(tmp_path.rglob("answers.json")).read_text())["answers"]
    assert [one["score"] for one in answers] == [0.0, 1.0, 0.5, None]


def test_mlflow_gets_no_name_that_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    fake = SimpleNamespace(log_metric=lambda name, value: names.append(name), log_dict=lambda *content: None)
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    from rag_zeval.adapters.mlflow import log_results

    for system in ("answers (1)+é, 50%\n", "openai:judge@http://host:1/v1/", "../old", "."):
        log_results([replace(one, system=system) for one in JUDGED])
    assert {name.rpartition("/")[2] for name in names} == {"mean", "low", "high", "coverage"}
    for name in names:  # as mlflow.utils.validation has it
        assert re.fullmatch(r"[/\w.\- ]*", name) and posixpath.normpath(name) == name


def test_inspect_scores_its_samples(judge: Evaluator) -> None:
    pytest.importorskip("inspect_ai")
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import Target
    from inspect_ai.solver import TaskState

    from rag_zeval.adapters.inspect_ai import rag_zeval_scorer

    async def score(contexts: Any, answer: str = "Ann has cats. Bob has dogs.", target: str = "Eve.") -> Any:
        output = ModelOutput.from_content("m", answer)
        state = TaskState("m", 1, 1, "Who?", [], output=output, metadata={"contexts": contexts})
        return await rag_zeval_scorer(judge)(state, Target(target))

    assert asyncio.run(score(["Ann has cats.", "Bob has dogs."])).value == 1.0
    half = asyncio.run(score(["Ann has cats."]))
    assert (half.value, half.explanation) == (0.5, "Bob has dogs")
    assert asyncio.run(score("Ann has cats. Bob has dogs.")).value == 1.0  # one text
    assert asyncio.run(score(None)).value == 0.0  # by the target
    for none in (score([], target="Ann has cats."), score(None, target="")):  # nothing retrieved, no target
        unscored = asyncio.run(none)
        assert math.isnan(unscored.value) and unscored.reason == "failed: no reference"  # not in Inspect's means


def test_deepeval_measures_its_test_cases(judge: Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "1")
    pytest.importorskip("deepeval")
    from deepeval.test_case import LLMTestCase

    from rag_zeval.adapters.deepeval import RagZevalMetric

    def case(**more: Any) -> Any:
        return LLMTestCase(input="Who?", actual_output="Ann has cats. Bob has dogs.", **more)

    metric = RagZevalMetric(judge, threshold=0.8)
    assert metric.measure(case(retrieval_context=["Ann has cats.", "Bob has dogs."])) == 1.0 and metric.is_successful()
    assert asyncio.run(metric.a_measure(case(retrieval_context=["Ann has cats."]))) == 0.5
    assert not metric.is_successful() and metric.reason == "not supported: Bob has dogs"
    assert metric.measure(case(expected_output="Ann has cats. Bob has dogs.")) == 1.0
    with pytest.raises(ValueError, match="failed: no reference"):
        metric.measure(case())

    async def cell() -> float:
        return metric.measure(case(expected_output="Ann has cats."))

    assert asyncio.run(cell()) == 0.5  # where an event loop is running


def test_deepeval_is_told_of_an_answer_without_claims(judge: Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "rag_zeval.adapters.deepeval"
    for module in ("deepeval", "deepeval.metrics", name):
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(BaseMetric=object))
    del sys.modules[name]
    metric = importlib.import_module(name).RagZevalMetric(judge)
    case = SimpleNamespace(input="Who?", actual_output="...", retrieval_context=["Ann has cats."], expected_output=None)
    with pytest.raises(ValueError, match=r"^no claims$"):
        metric.measure(case)
    told = {"actual_output": "Ann has cats.", "expected_output": "Ann has cats."}
    assert metric.measure(SimpleNamespace(**{**vars(case), **told, "retrieval_context": None})) == 1.0
    with pytest.raises(ValueError, match=r"^failed: no reference$"):  # nothing was retrieved
        metric.measure(SimpleNamespace(**{**vars(case), **told, "retrieval_context": []}))
    assert metric.__name__ == "RAG-Zeval" and metric.success is None  # its own name is "Base Metric"
    named = SimpleNamespace(context="Ann has cats.", source="cats.txt")  # DeepEval's RetrievedContextData
    for passage, success in (("Ann has cats.", True), ("Bob has dogs.", False), (named, True)):
        metric.measure(
            SimpleNamespace(**{**vars(case), "actual_output": "Ann has cats.", "retrieval_context": [passage]})
        )
        assert metric.success is success
