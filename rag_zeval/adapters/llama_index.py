"""Collects the answers of a LlamaIndex query engine by `query`, without importing LlamaIndex."""

from collections.abc import Iterable, Iterator
from typing import Any

from rag_zeval.collect.answers import Found, ask_each
from rag_zeval.files import Row


def ask(engine: Any, questions: Iterable[Row]) -> Iterator[Row]:
    """Ask an engine each question, and yield rows as `rag-zeval collect` writes them. The engine must not stream."""

    def call(text: str) -> Found:
        said = engine.query(text)
        nodes = [scored.node for scored in said.source_nodes]
        return Found(said.response, tuple(node.get_content() for node in nodes), tuple(node.node_id for node in nodes))

    return ask_each(questions, call)
