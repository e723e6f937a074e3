"""A cache of replies in SQLite, so that you never pay for the same request twice."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.files import check_regular
from rag_zeval.models.language_model import Backend, Messages, Reply, Request
from rag_zeval.secrets import scrub

READING = 3  # part of each key; raise it when the rule for which replies are complete changes
LOCK_SECONDS = 10.0  # longest wait for another program that locks the file
QUIET_SECONDS = 1.0  # wait without a message: two runs that share a cache often wait for each other briefly
PAUSE = 0.02  # seconds between two tries
MOST_UNSTORED = 1_000  # replies kept in memory while the file is locked
SCHEMA = "CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)"  # exactly as SQLite keeps it


def reply_key(identity: str, request: Request) -> str:
    """Return the cache key: hex sha256 of everything that can change a reply.

    That is READING, `Backend.identity`, messages, sampling, schema and trial, but not batch size, concurrency, timeouts
    or the path of a checkpoint.
    """
    content = [
        READING,
        identity,
        request.messages,
        dataclasses.asdict(request.sampling),
        request.response_schema,
        request.trial,
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class ReplyCache:
    """Replies by key, in one SQLite file that several processes may share. A kill loses no stored reply.

    A damaged entry is detected by its hash. The request is then sent again, and the entry replaced. Once the file is
    open, no fault of it stops a run or loses a reply; one line on stderr says what went wrong. After a failed read, the
    file is not used again. After a failed write, later replies are still written if possible. Waiting for a lock does
    not block the event loop, and ends after LOCK_SECONDS.

    A new file is readable by its owner only (mode 0600), because replies quote the inputs; an existing one keeps its
    mode. Raises InputError if the file is not such a cache, or stays locked for LOCK_SECONDS.

        with ReplyCache("replies.sqlite") as cache:
            backend = CachedBackend(open_backend(spec), cache)
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._under_way: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[Reply]] = {}  # by loop and key
        self._unstored: dict[str, str] = {}  # entries by key, while another program locks the file
        self._using = threading.RLock()
        self._told = self._failed = self._unreadable = False
        check_regular(self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite gives its side files the same mode
            # each statement commits itself; an event loop in another thread (a notebook) uses it too
            self._db = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                self._wait_for(self._open)
            except BaseException:
                self._db.close()
                raise
        except (sqlite3.Error, OSError) as error:
            why = f"another program keeps it locked ({error})" if "lock" in str(error) else error
            raise InputError(f"{path}: cannot be used as a reply cache: {why}") from error

    def _open(self) -> None:
        """Create the table if the file is empty. A lock that blocks writing shows here, before anything is paid for.

        Raises InputError if the file belongs to another program.
        """
        self._db.text_factory = bytes  # an edited file may hold bytes that are not text
        tables = self._db.execute("SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
        if tables not in ([], [(SCHEMA.encode(),)]):
            raise InputError(f"{self.path}: belongs to another program; choose another file for the reply cache")
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(SCHEMA.replace("TABLE", "TABLE IF NOT EXISTS"))

    async def reply(self, key: str, ask: Callable[[], Coroutine[Any, Any, Reply]]) -> Reply:
        """Return the stored reply. If there is none, return the result of `await ask()` and store it.

        Concurrent calls with equal keys in one event loop share one `ask`; the others get the same reply with 0 calls.
        If the call that asks is cancelled, one of the others asks instead.
        """
        if (stored := await self.get(key)) is not None:
            return stored
        here = asyncio.get_running_loop(), key
        while (under_way := self._under_way.get(here)) is not None:
            await asyncio.wait([under_way])
            if under_way.cancelled():
                continue
            shared = under_way.result()
            free: dict[str, Any] = {"calls": 0, "retries": 0, "seconds": 0.0, "paid_tokens": None, "bounded": 0}
            return dataclasses.replace(shared, **free, cached=shared.status == "ok")

        async def ask_and_store() -> Reply:
            reply = await ask()
            self.put(key, reply)
            return reply

        self._under_way[here] = asyncio.ensure_future(ask_and_store())
        try:
            return await self._under_way[here]
        finally:
            del self._under_way[here]

    async def get(self, key: str) -> Reply | None:
        """Return the stored reply or None. It is marked as cached, with 0 calls and the tokens that it once cost."""
        if (unstored := self._unstored.get(key)) is not None:
            return _read(key, unstored.encode())
        rows = await self._run("SELECT reply FROM replies WHERE key = ?", key)
        return _read(key, rows[0][0]) if rows else None

    def put(self, key: str, reply: Reply) -> None:
        """Store a reply with status "ok", and ignore any other.

        This does not wait for a lock. A reply that cannot be stored yet is stored together with a later one, or by
        `close`.
        """
        if reply.status != "ok" or self._unreadable:
            return
        self._unstored[key] = _entry(key, reply)
        try:
            self._store()
        except sqlite3.Error as error:
            if not _is_locked(error) or self._failed or len(self._unstored) >= MOST_UNSTORED:
                self._warn(error)

    async def forget(self, key: str) -> None:
        """Delete a stored reply."""
        self._unstored.pop(key, None)
        await self._run("DELETE FROM replies WHERE key = ?", key)

    def close(self) -> None:
        """Store the replies that still wait for a lock, and close the file."""
        try:
            if self._unstored:
                self._wait_for(self._store)
        except sqlite3.Error as error:
            self._warn(error)
        self._db.close()

    def __enter__(self) -> ReplyCache:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def _run(self, statement: str, *values: str) -> list[Any] | None:
        """Return the rows that a statement finds. If it fails, return None, and also for every later statement."""
        rows: list[Any] = []
        try:
            for pause in self._tries(lambda: rows.extend(self._db.execute(statement, values).fetchall())):
                await asyncio.sleep(pause)
        except sqlite3.Error as error:
            self._warn(error)
            self._unreadable = True
        return None if self._unreadable else rows

    def _store(self) -> None:
        with self._using:
            self._db.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?)", list(self._unstored.items()))
        self._unstored.clear()

    def _wait_for(self, act: Callable[[], None]) -> None:
        """Call `act` as soon as no other program's lock prevents it. Raises sqlite3.Error as `_tries` does."""
        for pause in self._tries(act):
            time.sleep(pause)

    def _tries(self, act: Callable[[], None]) -> Iterator[float]:
        """Call `act` until it succeeds, and yield the seconds to wait before each retry.

        Raises sqlite3.Error if the lock lasts until the deadline, and for any other error. After an earlier failure it
        does not wait for a lock at all: for some locks SQLite itself waits for ten seconds at every try.
        """
        started = time.monotonic()
        while not self._unreadable:
            try:
                with self._using:
                    act()
                return
            except sqlite3.Error as error:
                waited = time.monotonic() - started
                if not _is_locked(error) or self._failed or waited >= LOCK_SECONDS:
                    raise
            if waited > QUIET_SECONDS and not self._told:
                self._told = True
                told = f"another program has locked this reply cache; waiting for at most {LOCK_SECONDS:g} s"
                print(f"note: {self.path}: {told}", file=sys.stderr)
            yield PAUSE

    def _warn(self, error: sqlite3.Error) -> None:
        self._unstored.clear()
        if not self._failed:
            self._failed = True
            meaning = "this run uses every reply, but replies that cannot be kept or read are paid for again"
            print(f"warning: {self.path}: the reply cache fails ({error}): {meaning}", file=sys.stderr)


def _is_locked(error: sqlite3.Error) -> bool:
    """Whether a retry may help. After "locking protocol" it does not: SQLite itself has waited for ten seconds."""
    return "locked" in str(error)  # Python 3.10 has no error codes


def _entry(key: str, reply: Reply) -> str:
    content = scrub(json.dumps([reply.text, reply.prompt_tokens, reply.completion_tokens]))
    return f"{_digest(key, content.encode())} {content}"


def _read(key: str, entry: Any) -> Reply | None:
    """Return the reply in an entry of the file; None unless `_entry` wrote it for this key."""
    if not isinstance(entry, bytes):
        return None
    digest, _, content = entry.partition(b" ")
    if digest != _digest(key, content).encode():
        return None
    text, prompt_tokens, completion_tokens = json.loads(content)
    return Reply(text, "ok", prompt_tokens, completion_tokens, cached=True)


def _digest(key: str, content: bytes) -> str:
    return hashlib.sha256(key.encode() + content).hexdigest()


class CachedBackend:
    """A backend with a cache: it sends a request to another backend only if the reply is not stored.

    stored_only: while this is set, nothing is sent: a reply that is not stored is missing.
    forgets: while this is set too, a stored reply is returned and deleted, so that its request is sent again later.
    """

    def __init__(self, backend: Backend, cache: ReplyCache):
        self.backend, self.cache = backend, cache
        self.stored_only = self.forgets = False
        self.name, self.identity, self.card = backend.name, backend.identity, backend.card
        self.max_context, self.batched, self.at_once = backend.max_context, backend.batched, backend.at_once

    def count_tokens(self, messages: Messages) -> int | None:
        return self.backend.count_tokens(messages)

    async def complete(self, request: Request) -> Reply:
        key = reply_key(self.identity, request)
        if self.stored_only:
            kept = await self.cache.get(key)
            if self.forgets:
                await self.cache.forget(key)
            return kept or Reply(None, "failed: not in the cache")
        return await self.cache.reply(key, lambda: self.backend.complete(request))
