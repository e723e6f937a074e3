"""Collects the answers of a LangChain chain by `invoke`, without importing LangChain."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rag_zeval.collect.answers import Found, ask_each
from rag_zeval.files import Row
from rag_zeval.models.responses.bounded_http import SHOWN
from rag_zeval.secrets import without_keys


def ask(
    chain: Any, questions: Iterable[Row], *, question: str = "input", answer: str = "answer", contexts: str = "context"
) -> Iterator[Row]:
    """Ask a chain each question, and yield rows as `rag-zeval collect` writes them.

    question: a key of the chain's input. answer, contexts: keys of its output. The defaults are those of
    `create_retrieval_chain`. The contexts must be LangChain documents.
    """

    def call(text: str) -> Found:
        said = chain.invoke({question: text})
        keys = [*said] if isinstance(said, Mapping) else []
        if lacking := [key for key in (answer, contexts) if key not in keys]:
            shown = without_keys(repr(said))[:SHOWN]  # half a key would not be recognised later
            raise ValueError(f"no {' and no '.join(map(repr, lacking))} in what the chain returns: {shown}")
        documents = said[contexts]
        ids = tuple(document.id for document in documents)
        return Found(said[answer], tuple(document.page_content for document in documents), None if None in ids else ids)

    return ask_each(questions, call)
