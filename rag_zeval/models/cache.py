"""Replies kept in SQLite, so that nothing is paid for twice."""

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

READING = 3  # raise it when other replies count as whole, for that is decided before a reply is kept
LOCK_SECONDS = 10.0  # to wait at most for another program that locks the file
QUIET_SECONDS = 1.0  # of that without a word: two runs that share a cache wait for each other all the time
PAUSE = 0.02  # seconds between two tries
MOST_UNSTORED = 1_000  # replies that wait in memory for a lock
SCHEMA = "CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)"  # as SQLite itself keeps the words


def reply_key(identity: str, request: Request) -> str:
    """Hex sha256 of all that can change a reply: model (`Backend.identity`), messages, sampling, schema, trial.

    Batch size, concurrency, timeouts and the path of a checkpoint are no part of it.
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
    """Replies by key, in one SQLite file that several processes may share; a kill loses no reply stored before it.

    An entry counts only as it was written, under its own key: any other is asked for again and replaced. Once the file
    is open, nothing that happens to it stops a run or costs a reply: one line on stderr says what went wrong. A file
    that cannot be read is left alone from then on; where only writing fails, each further reply is tried to be kept.
    Waiting for a lock leaves the event loop free and has a deadline.

    Only its owner may read a file made here (mode 0600), for replies quote what was asked; one that is there keeps its
    mode. Raises InputError when the file cannot be opened as such a cache, or stays locked for LOCK_SECONDS.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._under_way: dict[str, asyncio.Task[Reply]] = {}  # by key
        self._unstored: dict[str, str] = {}  # entries by key, while another program writes
        self._using = threading.Lock()
        self._told = self._failed = self._unreadable = False
        check_regular(self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite gives its side files the same mode
            # each statement commits itself; an event loop in another thread (a notebook) uses it too
            self._db = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
            self._wait_for(self._open)
        except (sqlite3.Error, OSError) as error:
            why = f"another program keeps it locked ({error})" if "lock" in str(error) else error
            raise InputError(f"{path}: cannot be used as a reply cache: {why}") from error

    def _open(self) -> None:
        """Make the table in an empty file. A lock that writers would meet is met here, before anything is paid for."""
        self._db.text_factory = bytes  # what an edited file holds may be no text
        tables = self._db.execute("SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
        if tables not in ([], [(SCHEMA.encode(),)]):
            raise InputError(f"{self.path}: belongs to another program; choose another file for the reply cache")
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(SCHEMA.replace("TABLE", "TABLE IF NOT EXISTS"))

    async def reply(self, key: str, ask: Callable[[], Coroutine[Any, Any, Reply]]) -> Reply:
        """The stored reply, or that of `await ask()`, which is then stored.

        Equal keys side by side are asked once: the others get the same reply, which costs nothing then.
        """
        if (stored := await self.get(key)) is not None:
            return stored
        if (under_way := self._under_way.get(key)) is not None:
            shared = await asyncio.shield(under_way)
            return dataclasses.replace(shared, calls=0, retries=0, seconds=0.0, cached=shared.status == "ok")

        async def ask_and_store() -> Reply:
            reply = await ask()
            self.put(key, reply)
            return reply

        self._under_way[key] = asyncio.ensure_future(ask_and_store())
        try:
            return await self._under_way[key]
        finally:
            del self._under_way[key]

    async def get(self, key: str) -> Reply | None:
        """The stored reply, marked as cached and with no calls spent; its tokens are those it once cost."""
        if (unstored := self._unstored.get(key)) is not None:
            return _read(key, unstored.encode())
        rows = await self._run("SELECT reply FROM replies WHERE key = ?", key)
        return _read(key, rows[0][0]) if rows else None

    def put(self, key: str, reply: Reply) -> None:
        """Store an "ok" reply in place of what is there. Other replies are not worth keeping.

        It waits for no lock: a reply that cannot be stored yet is stored with a later one, or by `close`.
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
        """Drop a reply, so that the next one can be kept."""
        self._unstored.pop(key, None)
        await self._run("DELETE FROM replies WHERE key = ?", key)

    def close(self) -> None:
        """Store what still waits for a lock, and close the file."""
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
        """The rows that a statement finds; None where it cannot be run, and from then on.

        SQLite itself waits for some locks, ten seconds for each statement: who waits beside it does not try as well.
        """
        pauses = self._pauses()
        while not self._unreadable:
            try:
                with self._using:
                    return self._db.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                pause = next(pauses, None) if _is_locked(error) else None
                if pause is None:
                    self._warn(error)
                    self._unreadable = True
                    return None
            await asyncio.sleep(pause)
        return None

    def _store(self) -> None:
        with self._using:
            self._db.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?)", list(self._unstored.items()))
        self._unstored.clear()

    def _wait_for(self, act: Callable[[], None]) -> None:
        """Do something that another program's lock may forbid. Raises sqlite3.Error if it does so to the end."""
        pauses = self._pauses()
        while True:
            try:
                return act()
            except sqlite3.Error as error:
                pause = next(pauses, None) if _is_locked(error) else None
                if pause is None:
                    raise
            time.sleep(pause)

    def _pauses(self) -> Iterator[float]:
        """Seconds to wait before each further try, until the deadline; none any more once a deadline has passed."""
        started = time.monotonic()
        while not self._failed and (waited := time.monotonic() - started) < LOCK_SECONDS:
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
    """Whether to try again. Of "locking protocol" not: SQLite itself has waited ten seconds then."""
    return "locked" in str(error)  # Python 3.10 tells no error codes


def _entry(key: str, reply: Reply) -> str:
    content = scrub(json.dumps([reply.text, reply.prompt_tokens, reply.completion_tokens]))
    return f"{_digest(key, content.encode())} {content}"


def _read(key: str, entry: Any) -> Reply | None:
    """The reply in an entry of the file; None for one that was not written so by `_entry`, for this key."""
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
    """A backend that asks another only for what the cache lacks. Equal requests side by side are asked once.

    forgets: while it is set nothing is asked; a reply that is there is handed out and dropped, to be asked for anew.
    """

    def __init__(self, backend: Backend, cache: ReplyCache):
        self.backend, self.cache = backend, cache
        self.forgets = False
        self.name, self.identity, self.card = backend.name, backend.identity, backend.card
        self.max_context, self.batched, self.at_once = backend.max_context, backend.batched, backend.at_once

    def count_tokens(self, messages: Messages) -> int | None:
        return self.backend.count_tokens(messages)

    async def complete(self, request: Request) -> Reply:
        key = reply_key(self.identity, request)
        if self.forgets:
            kept = await self.cache.get(key)
            await self.cache.forget(key)
            return kept or Reply(None, "failed: not in the cache")
        return await self.cache.reply(key, lambda: self.backend.complete(request))
