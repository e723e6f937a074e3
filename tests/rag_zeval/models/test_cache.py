from __future__ import annotations

import asyncio
import copy
import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.cache import CachedBackend, ReplyCache, reply_key
from rag_zeval.models.language_model import Reply, Request, Sampling
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.models.scripted import ScriptedBackend

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
messages = st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "system"]), "content": texts}), max_size=3)
samplings = st.builds(
    Sampling,
    st.floats(0, 2, allow_nan=False),
    st.floats(0, 1, allow_nan=False),
    st.integers(1, 9000),
    st.integers(0, 99),
)
schemas = st.none() | st.dictionaries(texts, texts, max_size=2)
requests = st.builds(Request, messages.map(tuple), samplings, st.integers(0, 9), schemas)


@given(texts, requests)
def test_a_key_is_the_same_for_the_same_and_another_for_any_single_change(identity: str, request: Request) -> None:
    sampling = request.sampling
    assert reply_key(identity, request) == reply_key(identity, copy.deepcopy(request))
    changed = [
        dataclasses.replace(request, trial=request.trial + 1),
        dataclasses.replace(request, response_schema={"type": "new"} if request.response_schema is None else None),
        dataclasses.replace(request, messages=(*request.messages, {"role": "user", "content": "x"})),
        dataclasses.replace(request, sampling=dataclasses.replace(sampling, temperature=sampling.temperature + 0.5)),
        dataclasses.replace(request, sampling=dataclasses.replace(sampling, top_p=sampling.top_p / 2 + 0.6)),
        dataclasses.replace(request, sampling=dataclasses.replace(sampling, max_tokens=sampling.max_tokens + 1)),
        dataclasses.replace(request, sampling=dataclasses.replace(sampling, seed=sampling.seed + 1)),
    ]
    keys = {reply_key(identity, each) for each in [request, *changed]} | {reply_key(identity + "x", request)}
    assert len(keys) == len(changed) + 2


def test_throughput_settings_are_no_part_of_the_identity() -> None:
    quick = OpenAIBackend("judge", "http://host/v1", concurrency=1, timeout=5, max_retries=0)
    slow = OpenAIBackend("judge", "http://host/v1/", concurrency=64, timeout=500, max_retries=9)
    assert quick.identity == slow.identity != OpenAIBackend("other", "http://host/v1").identity
    assert quick.identity != OpenAIBackend("judge", "http://elsewhere/v1").identity


def ask(text: str, trial: int = 0) -> Request:
    return Request(({"role": "user", "content": text},), trial=trial)


def test_a_reply_is_paid_for_once(tmp_path: Path) -> None:
    model = ScriptedBackend(lambda request: f"{request.messages[0]['content']} {request.trial}")
    cached = CachedBackend(model, ReplyCache(tmp_path / "deep" / "replies.sqlite"))
    asked = [ask("a"), ask("b"), ask("a"), ask("a", trial=1)]
    first = dict(as_finished(cached.complete, asked, 8))
    assert [first[i].text for i in range(4)] == ["a 0", "b 0", "a 0", "a 1"]
    assert [first[i].calls for i in range(4)] == [1, 1, 0, 1] and model.calls == 3
    again = dict(as_finished(CachedBackend(model, ReplyCache(cached.cache.path)).complete, [*asked, ask("c")], 8))
    assert model.calls == 4
    assert all(again[i].cached and again[i].calls == 0 and again[i].text == first[i].text for i in range(4))
    assert again[0].completion_tokens == first[0].completion_tokens
    assert not again[4].cached
    other = CachedBackend(ScriptedBackend(["other"], name="other"), ReplyCache(cached.cache.path))
    assert [reply.text for _, reply in as_finished(other.complete, [ask("a")], 1)] == ["other"]


@given(st.lists(st.sampled_from("abcdef"), max_size=12), st.sets(st.sampled_from("abcdefABCDEF")), st.integers(1, 13))
def test_what_one_asks_after_a_reply_is_asked_once_too(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], known: set[str], at_once: int
) -> None:
    """Each text is asked about, then what it became in upper case; `known` are in the cache already."""
    cache = ReplyCache(tmp_path_factory.mktemp("cache") / "replies.sqlite")
    model = ScriptedBackend(lambda request: request.messages[0]["content"] * 2)
    cached = CachedBackend(model, cache)
    list(as_finished(cached.complete, map(ask, known), at_once))
    model.calls = 0

    async def twice(text: str) -> list[str | None]:
        return [(await cached.complete(ask(form))).text for form in (text, text.upper())]

    replies = dict(as_finished(twice, texts, at_once))
    assert [replies[index] for index in range(len(texts))] == [[text * 2, text.upper() * 2] for text in texts]
    assert model.calls == len({*texts, *(text.upper() for text in texts)} - known)


@pytest.mark.parametrize("status", ["truncated", "failed: HTTP 500"])
def test_only_whole_replies_are_kept(tmp_path: Path, status: str) -> None:
    model = ScriptedBackend(lambda _: Reply(None, status, calls=1))
    cached = CachedBackend(model, ReplyCache(tmp_path / "replies.sqlite"))
    for _ in range(2):
        assert [reply.status for _, reply in as_finished(cached.complete, [ask("a")], 1)] == [status]
    assert model.calls == 2 and cached.cache.count() == 0


def test_only_its_owner_reads_a_cache(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        cache = ReplyCache(tmp_path / "cache.sqlite")
        cache.put("key", Reply("text", "ok"))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("cache.sqlite", "cache.sqlite-wal", "cache.sqlite-shm"), 0o600)


def test_what_goes_wrong_with_the_file_later_is_one_line(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    cache._db.execute("DROP TABLE replies")
    for act in (lambda: cache.get("k"), lambda: cache.put("k", Reply("x", "ok")), lambda: cache.forget("k")):
        with pytest.raises(InputError, match="the reply cache cannot be used: no such table"):
            act()


def test_a_failure_that_others_waited_for_is_theirs_and_not_from_the_cache(tmp_path: Path) -> None:
    class Slow(ScriptedBackend):
        async def complete(self, request: Request) -> Reply:
            await asyncio.sleep(0.01)
            return await super().complete(request)

    model = Slow(lambda _: Reply(None, "failed: HTTP 500", calls=2))
    cached = CachedBackend(model, ReplyCache(tmp_path / "replies.sqlite"))
    found = dict(as_finished(cached.complete, [ask("a"), ask("a")], 2))
    assert [(found[i].calls, found[i].cached, found[i].status) for i in (0, 1)] == [
        (2, False, "failed: HTTP 500"),
        (0, False, "failed: HTTP 500"),
    ]


WRITER = """
import sys
from rag_zeval.models.cache import ReplyCache
from rag_zeval.models.language_model import Reply
cache, name, count = ReplyCache(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for i in range(count):
    cache.put(f"{name} {i}", Reply("x" * 200, "ok"))
    print(i, flush=True)
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_share_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    writers = [writer(path, name, 200) for name in ("one", "two", "three")]
    assert [process.communicate()[0].count("\n") for process in writers] == [200, 200, 200]
    assert ReplyCache(path).count() == 600


def test_a_kill_loses_no_stored_reply(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with writer(path, "w", 1_000_000) as process:
        assert process.stdout is not None
        stored = [process.stdout.readline() for _ in range(100)]
        os.kill(process.pid, signal.SIGKILL)
        stored += [line for line in process.stdout if line.endswith("\n")]
    cache = ReplyCache(path)
    assert len(stored) >= 100 and all(cache.get(f"w {i}") for i in range(len(stored)))
    cache.put("after", Reply("y", "ok"))
    assert cache.get("after") == Reply("y", "ok", cached=True)
