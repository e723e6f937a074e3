"""Replies kept in SQLite, so that nothing is paid for twice."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from rag_zeval.errors import InputError
from rag_zeval.models.language_model import Backend, Messages, Reply, Request

if TYPE_CHECKING:
    from rag_zeval.models.embeddings import Embedding

KEPT = 1_000  # replies of the cache that wait to be handed out, at most


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
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite gives its side files the same mode
            self._db = sqlite3.connect(self.path, timeout=60, isolation_level=None)  # each statement commits itself
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL)")
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"{path}: cannot be used as a reply cache: {error}") from error

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
        self._run("INSERT OR IGNORE INTO replies VALUES (?, ?)", key, json.dumps(kept))

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
    """A backend that asks another only for what the cache lacks. Equal requests of one call are asked once."""

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

    def complete(self, requests: Iterable[Request]) -> Iterator[tuple[int, Reply]]:
        return through_cache(
            requests,
            lambda request: reply_key(self.identity, request),
            self.cache.get,
            self.backend.complete,
            self.cache.put,
        )


Item = TypeVar("Item")
Found = TypeVar("Found", bound="Reply | Embedding")


def through_cache(
    items: Iterable[Item],
    key: Callable[[Item], str],
    get: Callable[[str], Found | None],
    ask: Callable[[Iterable[Item]], Iterator[tuple[int, Found]]],
    put: Callable[[str, Found], None],
) -> Iterator[tuple[int, Found]]:
    """Yield `(index, what was found)` of each item: from the cache, else from `ask`, which is asked once for each key.

    `ask` is a model's `complete` or `embed`; what it finds is `put`. Who waited for the same key gets it as cached.
    """
    lacking = _Lacking(items, key, get)
    more = True
    while more:
        lacking.number = itertools.count()  # each call counts from 0
        for position, found in ask(lacking):
            key_asked = lacking.asked.pop(position)
            first, *others = lacking.waiting.pop(key_asked)
            put(key_asked, found)
            yield first, found
            shared = found.status == "ok"
            for index in others:
                yield index, dataclasses.replace(found, calls=0, retries=0, seconds=0.0, cached=shared)
            yield from lacking.take_kept()
        more = bool(lacking.kept)
        yield from lacking.take_kept()


class _Lacking(Generic[Item, Found]):
    """The items that the cache lacks, each key once. `kept`: what it had; `waiting`: who waits for a key."""

    def __init__(self, items: Iterable[Item], key: Callable[[Item], str], get: Callable[[str], Found | None]):
        self._items, self._key, self._get = enumerate(items), key, get
        self.number = itertools.count()
        self.asked: dict[int, str] = {}  # keys of what is being asked, by the order of asking
        self.waiting: dict[str, list[int]] = {}
        self.kept: deque[tuple[int, Found]] = deque()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        while len(self.kept) < KEPT:
            index, item = next(self._items)
            key = self._key(item)
            if key in self.waiting:
                self.waiting[key].append(index)
            elif (found := self._get(key)) is not None:
                self.kept.append((index, found))
            else:
                self.waiting[key] = [index]
                self.asked[next(self.number)] = key
                return item
        raise StopIteration

    def take_kept(self) -> Iterator[tuple[int, Found]]:
        while self.kept:
            yield self.kept.popleft()
