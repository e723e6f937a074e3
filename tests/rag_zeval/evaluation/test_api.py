"""`evaluate` and `aevaluate` where Python programs run: notebooks, servers, threads; and when they are interrupted."""

import asyncio
import contextlib
import inspect
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import pytest

import rag_zeval
from rag_zeval import Evaluator, Example, aevaluate, evaluate, open_backend, read_judged
from rag_zeval.errors import InputError
from rag_zeval.evaluation.api import Results
from rag_zeval.files import read_jsonl
from rag_zeval.scorers.score import AnswerScorer
from rag_zeval.scripted_judge import ScriptedJudge

Call = Callable[..., list[Results]]
FAMILIES = ["rag_zeval", "is_correct", "ragchecker_precision", "bleu"]


def rows(count: int) -> list[dict[str, Any]]:
    """Answers of two sentences, of which one stands in the context."""
    return [
        {
            "question": f"What of {n}?",
            "answer": f"Ann has {n} cats. Bob has {n} dogs.",
            "contexts": [f"Ann has {n} cats."],
            "truth": f"Bob has {n} dogs.",
        }
        for n in range(count)
    ]


def in_a_loop(**keywords: Any) -> list[Results]:
    async def cell() -> Results:
        return evaluate(rows(6), **keywords)

    return [asyncio.run(cell())]


def awaited(**keywords: Any) -> list[Results]:
    return [asyncio.run(aevaluate(rows(6), **keywords))]


def in_a_thread(**keywords: Any) -> list[Results]:
    """Four at once, as a server may."""
    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(lambda _: evaluate(rows(6), **keywords), range(4)))


def together(**keywords: Any) -> list[Results]:
    """Four at once in one loop."""

    async def server() -> list[Results]:
        return await asyncio.gather(*(aevaluate(rows(6), **keywords) for _ in range(4)))

    return asyncio.run(server())


@pytest.mark.parametrize("call", [in_a_loop, awaited, in_a_thread, together])
def test_it_gives_the_same_wherever_it_is_called(call: Call, literal_judge: ScriptedJudge, tmp_path: Path) -> None:
    keywords = {"model": literal_judge.spec(), "scorers": FAMILIES, "against": "both"}
    expected = [(one.case, one.metric, one.score, one.status) for one in evaluate(rows(6), **keywords)]
    assert [score for _, metric, score, _ in expected if metric == "rag_zeval@contexts"] == [0.5] * 6
    for more in ({}, {"cache": tmp_path / "replies.sqlite"}):  # which all may share
        for results in call(**keywords, **more):
            assert [(one.case, one.metric, one.score, one.status) for one in results] == expected


def test_the_awaited_form_has_the_same_keywords() -> None:
    assert inspect.iscoroutinefunction(aevaluate)
    assert inspect.signature(aevaluate) == inspect.signature(evaluate)
    for name in rag_zeval.__all__:
        assert getattr(rag_zeval, name).__name__ == name and name in dir(rag_zeval)


def test_the_loop_stays_free_while_it_runs(literal_judge: ScriptedJudge) -> None:
    gaps: list[float] = []

    async def tick() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()

    async def server() -> Results:
        heart = asyncio.create_task(tick())
        results = await aevaluate(rows(6), model=literal_judge.spec(), concurrency=2)
        heart.cancel()
        return results

    literal_judge.delay = 0.2
    assert len(asyncio.run(server())) == 6
    assert len(gaps) > 20 and sorted(gaps)[len(gaps) // 2] < 0.1


async def cancelled(judge: ScriptedJudge, after: int, **keywords: Any) -> None:
    """Call `aevaluate`, and cancel it when the judge has got so many requests."""
    task = asyncio.create_task(aevaluate(rows(20), model=judge.spec(), concurrency=2, **keywords))
    while len(judge.requests) < after:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelling_stops_spending_keeps_what_is_there_and_leaves_the_file_free(
    literal_judge: ScriptedJudge, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    literal_judge.delay = 0.1
    out, threads = tmp_path / "rows.jsonl", threading.active_count()
    asyncio.run(cancelled(literal_judge, 7, out=out))
    asked, kept = len(literal_judge.requests), len(list(read_jsonl(out)))
    assert asked - 2 * 2 <= kept < 20 and asked <= 9
    time.sleep(0.3)
    assert len(literal_judge.requests) == asked and threading.active_count() <= threads + 4  # those of the judge
    results = asyncio.run(aevaluate(rows(20), model=literal_judge.spec(), out=out))
    assert len(results) == 20 and len(literal_judge.requests) == asked + 20 - kept
    assert {(one.case, one.score) for one in results} == {(one.case, one.score) for one in read_judged(out)}
    assert "never retrieved" not in caplog.text


def test_a_deadline_ends_it(literal_judge: ScriptedJudge) -> None:
    async def server() -> None:
        await asyncio.wait_for(aevaluate(rows(3), model=literal_judge.spec()), 0.5)

    literal_judge.delay = 3.0
    started = time.monotonic()
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(server())
    assert time.monotonic() - started < 2.5


def test_ctrl_c_in_a_cell_keeps_what_is_there(literal_judge: ScriptedJudge, tmp_path: Path) -> None:
    async def cell() -> None:
        evaluate(rows(20), model=literal_judge.spec(), out=out, concurrency=1)

    def interrupt() -> None:
        while len(literal_judge.requests) < 4:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for its background jobs
    literal_judge.faults = ["ok", "ok", "ok", "hang"]
    out = tmp_path / "rows.jsonl"
    threading.Thread(target=interrupt).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), contextlib.closing(asyncio.new_event_loop()) as loop:
        loop.run_until_complete(cell())  # as a notebook does it: `asyncio.run` would catch the signal
    assert time.monotonic() - started < 10 and len(list(read_jsonl(out))) == 3
    assert len(evaluate(rows(20), model=literal_judge.spec(), out=out)) == 20


def test_a_judge_shared_by_threads_keeps_its_concurrency_in_each(literal_judge: ScriptedJudge) -> None:
    judge = Evaluator(open_backend(literal_judge.spec(), concurrency=1))

    async def ask() -> list[list[float | None]]:
        asked = (judge.aevaluate("q", "Ann has cats.", ["Ann has cats.", "Bob has cats."]) for _ in range(5))
        return [evaluation.scores for evaluation in await asyncio.gather(*asked)]

    literal_judge.delay = 0.02
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda _: asyncio.run(ask()), range(3))) == [[[1.0, 0.0]] * 5] * 3
    assert literal_judge.open_most <= 3


@pytest.mark.parametrize(
    "names", ["bleu,rouge_l", " rouge_l , bleu,rouge_l,", ["bleu", "rouge_l"], ("bleu", "rouge_l")]
)
def test_names_are_a_list_or_a_text_with_commas(names: Any) -> None:
    assert {one.metric for one in evaluate(rows(2), scorers=names, against="truth")} == {"bleu@truth", "rouge_l@truth"}


def test_the_server_of_embeddings_gets_its_own_key(
    literal_judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"OPENAI_API_KEY": "sk-of-openai-1234", "JUDGE_KEY": "sk-of-judge-1234", "VECTOR_KEY": "sk-of-vectors-1234"}
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    for given, expected in ({}, "OPENAI_API_KEY"), ({"embeddings_key_env": "VECTOR_KEY"}, "VECTOR_KEY"):
        with contextlib.closing(ScriptedJudge()) as embedder:
            evaluate(
                rows(1),
                scorers="rag_zeval,embedding_similarity",
                against="truth",
                model=literal_judge.spec(),
                api_key_env="JUDGE_KEY",
                embeddings=embedder.spec(),
                processes=1,  # of a local judge
                **given,
            )
            sent = [{headers["authorization"] for headers in one.headers} for one in (literal_judge, embedder)]
        assert sent == [{f"Bearer {keys[name]}"} for name in ("JUDGE_KEY", expected)]


@pytest.mark.parametrize("kind", [str, Path])
def test_scorers_get_the_folders_of_their_models(kind: Any) -> None:
    with pytest.raises(InputError, match=r"nowhere: no model in this folder"):
        evaluate(rows(1), scorers="bert_score", against="truth", bert_score=kind("nowhere"))
    with pytest.raises(InputError, match=r"nowhere: no model in this folder"):
        evaluate(rows(1), scorers="hhem", claim_checker=kind("nowhere"))
    for call in (lambda: evaluate(rows(1), model=kind("nowhere")), lambda: open_backend(kind("nowhere"))):
        with pytest.raises(InputError, match=r"model 'nowhere': no such folder"):
            call()


def test_replies_that_scorers_share_are_kept_beside_the_rows(literal_judge: ScriptedJudge, tmp_path: Path) -> None:
    keywords: dict[str, Any] = {"model": literal_judge.spec(), "out": tmp_path / "rows.jsonl"}
    evaluate(rows(2), scorers="ragchecker_precision", **keywords)
    asked = len(literal_judge.requests)
    keywords["out"].unlink()
    assert len(evaluate(rows(2), scorers="ragchecker_precision", **keywords)) == 2
    assert len(literal_judge.requests) == asked
    repeated = [{**rows(1)[0], "id": str(n)} for n in range(3)]
    assert evaluate(repeated, model=literal_judge.spec()).summary.cached == 0  # each is judged, as by the command
    assert len(literal_judge.requests) == asked + 3


def test_a_run_with_files_of_its_own_needs_no_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container with a read-only file system and a volume for results."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    results = evaluate(rows(2), scorers="bleu", against="truth", out=tmp_path / "rows.jsonl")
    assert len(results) == len(read_judged(tmp_path / "rows.jsonl")) == 2
    with pytest.raises(OSError, match="missing"):
        evaluate(rows(2), scorers="bleu", against="truth")


def test_a_frame_has_numbers_even_if_none_is_known(scripted_judge: ScriptedJudge) -> None:
    scripted_judge.replies = "I refuse."
    frame = evaluate(rows(2), model=scripted_judge.spec()).to_pandas()
    assert frame.score.isna().all()
    assert {str(frame[name].dtype) for name in ("score", "latency_s", "cost_usd")} == {"float64"}


@pytest.mark.parametrize("names", [[], " , "])
def test_no_name_is_refused(names: Any) -> None:
    with pytest.raises(InputError, match="--scorers is empty"):
        evaluate(rows(2), scorers=names)


def test_no_keyword_is_ignored() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'html'"):
        evaluate(rows(2), scorers="bleu", html="report.html")
    with pytest.raises(TypeError, match="unexpected keyword argument 'account'"):
        evaluate(rows(2), scorers="bleu", account=None)
    for name, number in (("trials", 0), ("limit", 0), ("sample", -1)):
        with pytest.raises(InputError, match=f"--{name} is {number}, but must be 1 or more"):
            evaluate(rows(2), scorers="bleu", **{name: number})


def test_fewer_cases_and_a_limit_in_dollars(
    literal_judge: ScriptedJudge, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [one.question for one in evaluate(rows(9), scorers="bleu", limit=2)] == ["What of 0?", "What of 1?"]
    of_slices = [{**row, "slice_tag": "rare" if at == 8 else "usual"} for at, row in enumerate(rows(9))]
    drawn = evaluate(of_slices, scorers="bleu", sample=3)
    assert sorted(map(str, (one.slice_tag for one in drawn))) == ["rare", "usual", "usual"]
    prices = tmp_path / "prices.json"
    prices.write_text('{"judge": {"prompt": 1000, "completion": 0}}')  # a prompt of 7 tokens costs $0.007
    keywords = {"model": literal_judge.spec(), "prices": prices, "out": tmp_path / "o", "concurrency": 1}
    with pytest.raises(InputError, match="--max-cost needs the price"):
        evaluate(rows(9), model=literal_judge.spec(), max_cost=1)
    part = evaluate(rows(9), **keywords, max_cost=0.02)
    assert (len(part), part.spending.unasked, part.spending.dollars) == (9, 6, pytest.approx(0.021))
    assert [one.score for one in part] == [0.5] * 3 + [None] * 6 and "the budget is spent" in part[-1].status
    assert "6 rows are not judged, or not completely" in repr(part)
    assert "stopped at --max-cost 0.02: 6 rows are not judged" in capsys.readouterr().err
    evaluate(rows(9), **{**keywords, "out": None}, max_cost=0.001)
    assert "Without `out`, the next call pays for all again" in capsys.readouterr().err
    literal_judge.requests.clear()
    whole = asyncio.run(aevaluate(rows(9), **keywords, max_cost=1))
    assert (len(whole), whole.spending.unasked, len(literal_judge.requests)) == (9, 0, 6)


class Half(AnswerScorer):
    """One half, as a number of NumPy; infinity for one question."""

    name, identity, needs = "half", "half, version 1", ("answer", "reference")

    def __init__(self, **fields: str):
        vars(self).update(fields)

    def value(self, example: Example, answer: str) -> float:
        return numpy.float32(0.5) / (example.question != "What of 2?")


def test_a_scorer_of_the_users_own_is_one_like_others(literal_judge: ScriptedJudge, tmp_path: Path) -> None:
    keywords: dict[str, Any] = {"model": literal_judge.spec(), "out": tmp_path / "rows.jsonl"}
    with numpy.errstate(all="ignore"):
        results = evaluate(rows(3), scorers=[Half(), "rag_zeval"], criteria="relevance", **keywords)
        own = [one for one in results if one.metric == "half@contexts"]
        assert [(one.score, one.status) for one in own] == [(0.5, "ok")] * 2 + [(None, "failed: the value is inf")]
        assert {one.metric for one in results} == {"half@contexts", "rag_zeval@contexts", "relevance"}
        assert evaluate(rows(3), scorers=Half(), out=keywords["out"])[0].score == 0.5
    with pytest.raises(InputError, match="was made with a different identity"):
        evaluate(rows(3), scorers=[Half(identity="half, version 2")], out=keywords["out"])


@pytest.mark.parametrize("name", ["bleu", "question", "relevance", "a b", "half@truth"])
def test_a_scorer_of_the_users_own_has_a_name_of_its_own(name: str) -> None:
    with pytest.raises(InputError, match=f"scorer Half: choose another name than '{name}'"):
        evaluate(rows(1), scorers=[Half(name=name)], criteria="relevance", model="openai:judge@http://127.0.0.1:9/v1")
    with pytest.raises(InputError, match="scorer Half: choose another name than 'half'"):
        evaluate(rows(1), scorers=[Half(), Half()])
