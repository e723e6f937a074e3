"""Replies kept in SQLite, so that nothing is paid for twice."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rag_zeval.errors import InputError
from rag_zeval.llm import Backend, Messages, Reply, Request


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

    Raises InputError when the file cannot be opened as such a cache.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=60, isolation_level=None)  # each statement commits itself
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"{path}: cannot be used as a reply cache: {error}") from error

    def get(self, key: str) -> Reply | None:
        """The stored reply, marked as cached and with no calls spent; its tokens are those it once cost."""
        row = self._db.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
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
        self._db.execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", (key, json.dumps(kept)))

    def forget(self, key: str) -> None:
        """Drop a reply, so that the next one can be kept."""
        self._db.execute("DELETE FROM replies WHERE key = ?", (key,))

    def count(self) -> int:
        """Replies stored."""
        count: int = self._db.execute("SELECT count(*) FROM replies").fetchone()[0]
        return count

    def close(self) -> None:
        self._db.close()


class CachedBackend:
    """A backend that asks another only for what the cache lacks. Equal requests of one batch are asked once."""

    def __init__(self, backend: Backend, cache: ReplyCache):
        self.backend, self.cache = backend, cache

    @property
    def name(self) -> str:
        return self.backend.name

    @property
    def identity(self) -> str:
        return self.backend.identity

    @property
    def max_context(self) -> int | None:
        return self.backend.max_context

    @property
    def batched(self) -> bool:
        return self.backend.batched

    @property
    def card(self) -> Mapping[str, str]:
        return self.backend.card

    def count_tokens(self, messages: Messages) -> int | None:
        return self.backend.count_tokens(messages)

    def forget(self, request: Request) -> None:
        """Ask the backend again when this request comes next."""
        self.cache.forget(reply_key(self.identity, request))

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        missing: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            key = reply_key(self.identity, request)
            reply = self.cache.get(key) if key not in missing else None
            if reply is None:
                missing.setdefault(key, []).append(index)
            else:
                yield index, reply
        asked = list(missing.items())
        for position, reply in self.backend.complete([requests[indices[0]] for _, indices in asked]):
            key, (first, *others) = asked[position]
            self.cache.put(key, reply)
            yield first, reply
            for index in others:
                yield index, dataclasses.replace(reply, calls=0, retries=0, seconds=0.0, cached=True)
