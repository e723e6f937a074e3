"""The original packages through our proxy, on recorded decisions: the scores that `make parity` recorded.

`make parity` runs this; without the packages' environments it is skipped.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ragchecker_replies
import record_open_rag_eval
import record_trulens
from ragas_replies import Judge

from eval_benchmarks.originals.packages import ORIGINALS, PREFIX
from eval_benchmarks.originals.proxy import CountingProxy
from eval_benchmarks.originals.scorer import Runner
from rag_zeval.models.embeddings import OpenAIEmbedder
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.scripted_judge import ScriptedJudge

pytestmark = pytest.mark.slow
RECORDED = Path(__file__).resolve().parents[2] / "rag_zeval" / "scorers" / "parity"
LEAST = 20  # instances
Instance = dict[str, Any]


def by_text(reply: Callable[[Instance, str], str]) -> Callable[[Instance, Any], Any]:
    return lambda instance, body: reply(instance, body["messages"][-1]["content"])


REPLIES: dict[str, Callable[[Instance, Any], Any]] = {
    "ragas": by_text(lambda instance, prompt: json.dumps(Judge(instance).reply(prompt))),
    "ragchecker": by_text(ragchecker_replies.reply),
    "trulens": lambda instance, body: record_trulens.reply(
        instance, *(message["content"] for message in body["messages"])
    ),
    "open-rag-eval": record_open_rag_eval.reply,
}


@pytest.mark.parametrize("name", ORIGINALS)
def test_scores_are_those_recorded_and_a_second_run_asks_nothing(
    name: str, scripted_judge: ScriptedJudge, tmp_path: Path
) -> None:
    original, measure = ORIGINALS[name], name.removeprefix(PREFIX)
    if not original.is_installed:
        pytest.skip(f"{original.environment} is not there")
    recorded = json.loads((RECORDED / f"{original.package.replace('-', '_')}.json").read_text())
    instances, expected = recorded["instances"][: LEAST + 2], recorded["scores"][measure]
    chat = OpenAIBackend("judge", scripted_judge.url)
    vectors = OpenAIEmbedder("vectors", scripted_judge.url) if original.embeds else None
    runner = Runner(original, "judge", 120)

    def scores() -> tuple[dict[str, float | None], int, int]:
        values, calls, tokens = {}, 0, 0
        for instance in instances:
            decide, decisions = REPLIES[original.package], instance["decisions"]
            scripted_judge.replies = lambda body, one=instance, decide=decide: decide(one, body)
            if original.embeds:
                scripted_judge.vector = lambda text, of=decisions["vectors"]: of[text]
            asked = {key: instance.get(key, "") for key in ("id", "question", "answer", "truth", "chunks")}
            kept = tmp_path / f"{instance['id']}.sqlite"  # of its own: two instances may want two replies to one prompt
            with CountingProxy(chat, vectors, kept) as proxy:
                asked |= {"reference": asked["truth"], "url": proxy.url(instance["id"])}
                values[instance["id"]] = runner.score({**asked, "embeddings": "vectors" if vectors else None}).value
                replies = proxy.take(instance["id"])
            calls, tokens = calls + sum(r.calls for r in replies), tokens + sum(r.prompt_tokens or 0 for r in replies)
        return values, calls, tokens

    try:
        first, calls, tokens = scores()
        again, asked_again, _ = scores()
    finally:
        runner.end()
    assert first == again and asked_again == 0
    assert calls >= LEAST and tokens > 0
    wanted = {one["id"]: expected[one["id"]] for one in instances}
    assert {id_: value for id_, value in first.items() if value is not None} == pytest.approx(
        {id_: value for id_, value in wanted.items() if first[id_] is not None}, abs=1e-6
    )
    missing = [id_ for id_ in wanted if (first[id_] is None) != (wanted[id_] is None)]
    assert not missing, f"{missing}: a score here or there alone"
