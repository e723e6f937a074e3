"""Replies kept in SQLite, so that nothing is paid for twice."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from rag_zeval.errors import InputError
from rag_zeval.models.language_model import Backend, Messages, Reply, Request
from rag_zeval.secrets import scrub


def reply_key(identity: str, request: Request) -> str:
    """Hex sha256 of all that can change a reply: model (`Backend.identity`), messages, sampling, schema, trial.

    Batch size, concurrency, timeouts and the path of a checkpoint are no part of it.
    """
    content = [
        identity,
        request.messages,
        dataclasses.asdict(request.sampling),
        request.response_schema,
        request.trial,
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class ReplyCache:
    """Replies by key, in one SQLite file that several processes may share; a kill loses no reply stored before it.

    Only its owner may read a file made here (mode 0600), for replies quote what was asked; one that is there keeps its
    mode.
    Raises InputError when the file cannot be opened as such a cache.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._under_way: dict[str, asyncio.Task[Reply]] = {}  # by key
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite gives its side files the same mode
            self._db = sqlite3.connect(self.path, timeout=60, isolation_level=None)  # each statement commits itself
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"{path}: cannot be used as a reply cache: {error}") from error

    async def reply(self, key: str, ask: Callable[[], Coroutine[Any, Any, Reply]]) -> Reply:
        """The stored reply, or that of `await ask()`, which is then stored.

        Equal keys side by side are asked once: the others get the same reply, which costs nothing then.
        """
        if (stored := self.get(key)) is not None:
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

    def get(self, key: str) -> Reply | None:
        """The stored reply, marked as cached and with no calls spent; its tokens are those it once cost."""
        row = self._run("SELECT reply FROM replies WHERE key = ?", key).fetchone()
        return Reply(**json.loads(row[0]), cached=True) if row else None

    def put(self, key: str, reply: Reply) -> None:
        """Store an "ok" reply; a key that is there keeps its first reply. Other replies are not worth keeping."""
        if reply.status != "ok":
            return
        kept = {
            "text": reply.text,
            "status": reply.status,
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
        }
        self._run("INSERT OR IGNORE INTO replies VALUES (?, ?)", key, scrub(json.dumps(kept)))

    def forget(self, key: str) -> None:
        """Drop a reply, so that the next one can be kept."""
        self._run("DELETE FROM replies WHERE key = ?", key)

    def count(self) -> int:
        """Replies stored."""
        count: int = self._run("SELECT count(*) FROM replies").fetchone()[0]
        return count

    def _run(self, statement: str, *values: str) -> sqlite3.Cursor:
        """Raises InputError for a disk that is full, a file that another program locks, or one that is no cache."""
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: the reply cache cannot be used: {error}") from error

    def close(self) -> None:
        self._db.close()


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
            kept = self.cache.get(key)
            self.cache.forget(key)
            return kept or Reply(None, "failed: not in the cache")
        return await self.cache.reply(key, lambda: self.backend.complete(request))
