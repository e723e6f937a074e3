import asyncio
import copy
import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_backend import ScriptedBackend

from rag_zeval.errors import InputError
from rag_zeval.models import cache as cache_module
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.cache import CachedBackend, ReplyCache, reply_key
from rag_zeval.models.language_model import Reply, Request, Sampling
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.scorers.score import costs

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
        dataclasses.replace(request, sampling=dataclasses.replace(sampling, top_p=1 - sampling.top_p / 2)),
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


def got(cache: ReplyCache, key: str) -> Reply | None:
    return asyncio.run(cache.get(key))


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
    assert model.calls == 2


def test_only_its_owner_reads_a_cache(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        cache = ReplyCache(tmp_path / "cache.sqlite")
        cache.put("key", Reply("text", "ok"))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("cache.sqlite", "cache.sqlite-wal", "cache.sqlite-shm"), 0o600)


def test_a_failure_that_others_waited_for_is_theirs_and_not_from_the_cache(tmp_path: Path) -> None:
    class Slow(ScriptedBackend):
        async def complete(self, request: Request) -> Reply:
            await asyncio.sleep(0.01)
            return await super().complete(request)

    model = Slow(lambda _: Reply(None, "failed: HTTP 500", calls=2, paid_tokens=(9, 9), bounded=2))
    cached = CachedBackend(model, ReplyCache(tmp_path / "replies.sqlite"))
    found = dict(as_finished(cached.complete, [ask("a"), ask("a")], 2))
    assert [(found[i].calls, found[i].cached, found[i].status) for i in (0, 1)] == [
        (2, False, "failed: HTTP 500"),
        (0, False, "failed: HTTP 500"),
    ]
    spent = costs([*found.values()])
    assert (spent["paid_tokens"], spent["bounded"]) == ((9, 9), 2)  # each is paid for once


def test_a_call_that_is_cancelled_takes_no_reply_from_the_others(tmp_path: Path) -> None:
    model = ScriptedBackend(["yes"])
    cached = CachedBackend(model, ReplyCache(tmp_path / "replies.sqlite"))
    answering = asyncio.Event()

    class Slow(ScriptedBackend):
        async def complete(self, request: Request) -> Reply:
            await answering.wait()
            return await model.complete(request)

    cached.backend = Slow([])

    async def first_is_cancelled() -> list[Any]:
        calls = [asyncio.create_task(cached.complete(ask("a"))) for _ in range(4)]
        await asyncio.sleep(0.01)
        calls[0].cancel()
        calls[2].cancel()
        await asyncio.sleep(0.01)
        answering.set()
        return await asyncio.gather(*calls, return_exceptions=True)

    first, second, third, fourth = asyncio.run(first_is_cancelled())
    assert isinstance(first, asyncio.CancelledError) and isinstance(third, asyncio.CancelledError)
    assert (second.text, second.calls) == ("yes", 1) and (fourth.text, fourth.calls) == ("yes", 0)
    assert model.calls == 1


WRITER = """
import sys
from rag_zeval.models.cache import ReplyCache
from rag_zeval.models.language_model import Reply
cache, name, count = ReplyCache(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for i in range(count):
    cache.put(f"{name} {i}", Reply("x" * 200, "ok"))
    print(i, flush=True)
cache.close()
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_share_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    writers = [writer(path, name, 200) for name in ("one", "two", "three")]
    assert [process.communicate()[0].count("\n") for process in writers] == [200, 200, 200]
    cache = ReplyCache(path)
    assert all(got(cache, f"{name} {i}") for name in ("one", "two", "three") for i in range(200))


def test_a_kill_loses_no_stored_reply(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with writer(path, "w", 1_000_000) as process:
        assert process.stdout is not None
        stored = [process.stdout.readline() for _ in range(100)]
        os.kill(process.pid, signal.SIGKILL)
        stored += [line for line in process.stdout if line.endswith("\n")]
    cache = ReplyCache(path)
    assert len(stored) >= 100 and all(got(cache, f"w {i}") for i in range(len(stored)))
    cache.put("after", Reply("y", "ok"))
    assert got(cache, "after") == Reply("y", "ok", cached=True)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cache with the entry "a", and a function that writes another in its place."""
    path = tmp_path_factory.mktemp("kept") / "replies.sqlite"
    cache = ReplyCache(path)
    other = sqlite3.connect(path, isolation_level=None)

    def write(key: str, entry: object) -> None:
        other.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, entry))

    cache.put("a", Reply("two words \ud83d", "ok", 7, 5))
    (entry,) = other.execute("SELECT reply FROM replies").fetchone()
    return cache, entry, write


@given(st.data())
def test_an_entry_that_is_not_as_it_was_written_is_asked_again_and_replaced(kept: Any, data: st.DataObject) -> None:
    cache, entry, write = kept
    at = data.draw(st.integers(0, len(entry) - 1))
    changed = data.draw(
        st.sampled_from([entry[:at], entry[at + 1 :], entry[:at] + "0" + entry[at + 1 :], entry.swapcase()])
        | st.binary(max_size=99)
        | st.text(st.characters(exclude_categories=("Cs",)), max_size=99)
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False)
        | st.sampled_from(['{"text": "x", "status": "ok", "prompt_tokens": 1, "completion_tokens": 1}', "[" * 10_000])
    )
    write("b", entry)
    assert got(cache, "b") is None, "a reply copied to another request"
    write("a", changed)
    was = got(cache, "a")
    assert was is None if changed != entry else was is not None
    asyncio.run(cache.reply("a", ask_for("new")))
    assert got(cache, "a") == Reply("new" if changed != entry else "two words \ud83d", "ok", 7, 5, cached=True)
    write("a", entry)
    assert got(cache, "a") == Reply("two words \ud83d", "ok", 7, 5, cached=True)


def ask_for(text: str) -> Any:
    async def ask() -> Reply:
        return Reply(text, "ok", 7, 5)

    return ask


@pytest.mark.parametrize(
    "other",
    [
        "CREATE TABLE persons (name TEXT)",
        "CREATE TABLE replies (key TEXT, reply TEXT)",
        "CREATE VIEW replies AS WITH RECURSIVE n(key) AS (VALUES(1) UNION ALL SELECT 1 FROM n) SELECT key, key FROM n",
    ],
)
def test_a_database_of_something_else_is_refused_and_left_as_it_was(tmp_path: Path, other: str) -> None:
    path = tmp_path / "other.sqlite"
    database = sqlite3.connect(path)
    database.execute(other)
    database.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"other\.sqlite: belongs to another program"):
        ReplyCache(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["other.sqlite"]


@pytest.mark.parametrize("content", [b"not a database" * 500, b"SQLite format 3\0" + b"\xff" * 5_000])
def test_a_file_that_is_no_cache_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    for path in (tmp_path / "f", tmp_path, Path("/dev/null"), tmp_path / "f" / "below"):
        with pytest.raises((InputError, OSError)) as error:
            ReplyCache(path)
        assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A cache with a reply to "a", and another connection that locks it: writers in WAL, and all where it says so."""
    monkeypatch.setattr(cache_module, "LOCK_SECONDS", 0.4)
    monkeypatch.setattr(cache_module, "QUIET_SECONDS", 0.1)
    path = tmp_path / "replies.sqlite"
    first = ReplyCache(path)
    first.put("a", Reply("kept", "ok"))
    first.close()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def lock(readers: bool) -> ReplyCache:
        if readers:
            other.execute("PRAGMA journal_mode=DELETE")
        cache = ReplyCache(path)
        if readers:
            cache._db.execute("PRAGMA journal_mode=DELETE")
        other.execute("BEGIN EXCLUSIVE")
        return cache

    return lock, other


def test_a_lock_holds_up_neither_a_reply_nor_what_else_runs(locked: Any, capsys: Any) -> None:
    lock, other = locked
    cache = lock(readers=True)
    threading.Timer(0.25, lambda: other.execute("COMMIT")).start()

    async def both() -> tuple[Reply, int]:
        turns = 0
        waiting = asyncio.ensure_future(cache.reply("a", ask_for("paid again")))
        while not waiting.done():
            await asyncio.sleep(0.01)
            turns += 1
        return waiting.result(), turns

    reply, turns = asyncio.run(both())
    assert reply == Reply("kept", "ok", cached=True) and turns > 10
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "another program" in told and "0.4 s" in told


@pytest.mark.parametrize("readers", [False, True])
def test_a_lock_for_good_costs_one_wait_and_no_reply(locked: Any, capsys: Any, readers: bool) -> None:
    lock, _ = locked
    cache = lock(readers)
    started = time.monotonic()
    replies = dict(as_finished(lambda key: cache.reply(key, ask_for(key)), ["a", "b", "b", *"cdefgh"], 3))
    cache.close()
    assert 0.3 < time.monotonic() - started < 1.2
    assert [replies[at].text for at in range(9)] == ["a" if readers else "kept", "b", "b", *"cdefgh"]
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in told] == ["note", "warning"], told
    assert "database is locked" in told[1]
    with pytest.raises(InputError, match=r"replies\.sqlite: cannot be used as a reply cache: another program .*locked"):
        ReplyCache(cache.path)


def test_what_came_while_another_wrote_is_kept_at_the_end(locked: Any, capsys: Any) -> None:
    lock, other = locked
    cache = lock(readers=False)
    asyncio.run(cache.reply("b", ask_for("b")))
    assert got(cache, "b") == Reply("b", "ok", 7, 5, cached=True)
    threading.Timer(0.2, lambda: other.execute("COMMIT")).start()
    cache.close()
    assert got(ReplyCache(cache.path), "b") == Reply("b", "ok", 7, 5, cached=True)
    assert capsys.readouterr().err.startswith("note: ")


@pytest.mark.parametrize("harm", ["DROP TABLE replies", "PRAGMA query_only=1", "closed"])
def test_a_cache_that_breaks_in_the_middle_costs_a_line_and_no_reply(tmp_path: Path, capsys: Any, harm: str) -> None:
    cache = ReplyCache(tmp_path / "replies.sqlite")
    cached = CachedBackend(ScriptedBackend(lambda request: request.messages[0]["content"]), cache)
    if harm == "closed":
        cache._db.close()
    else:
        cache._db.execute(harm)
    assert sorted(str(reply.text) for _, reply in as_finished(cached.complete, map(ask, "abcab"), 2)) == list("aabbc")
    cached.stored_only = cached.forgets = True
    assert [reply.status for _, reply in as_finished(cached.complete, [ask("a")], 1)] == ["failed: not in the cache"]
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and told.startswith(f"warning: {cache.path}: ") and "paid for again" in told


def test_a_cache_serves_any_thread(tmp_path: Path) -> None:
    cached = CachedBackend(ScriptedBackend(["x"]), ReplyCache(tmp_path / "replies.sqlite"))

    async def notebook() -> list[str | None]:
        return [reply.text for _, reply in as_finished(cached.complete, [ask("a"), ask("a")], 1)]

    assert asyncio.run(notebook()) == ["x", "x"]


def test_threads_that_ask_the_same_at_once_all_get_a_reply(tmp_path: Path) -> None:
    together = threading.Barrier(3)

    class Slow(ScriptedBackend):
        async def complete(self, request: Request) -> Reply:
            await asyncio.to_thread(together.wait, 10)
            return await super().complete(request)

    cached = CachedBackend(Slow(lambda _: "x"), ReplyCache(tmp_path / "replies.sqlite"))
    with ThreadPoolExecutor(3) as threads:
        replies = threads.map(lambda _: asyncio.run(asyncio.wait_for(cached.complete(ask("a")), 20)).text, range(3))
        assert list(replies) == ["x"] * 3
