"""Chains of LangChain: what `invoke` gives back, without importing LangChain."""

from collections.abc import Iterable, Iterator
from typing import Any

from rag_zeval.collect.answers import Found, ask_each
from rag_zeval.files import Row


def ask(
    chain: Any, questions: Iterable[Row], *, question: str = "input", answer: str = "answer", contexts: str = "context"
) -> Iterator[Row]:
    """Rows as `rag-zeval collect` writes them; the contexts are LangChain documents.

    question, answer, contexts: keys of what the chain takes and gives; by default those of `create_retrieval_chain`.
    """

    def call(text: str) -> Found:
        said = chain.invoke({question: text})
        documents = said[contexts]
        ids = tuple(document.id for document in documents)
        return Found(said[answer], tuple(document.page_content for document in documents), None if None in ids else ids)

    return ask_each(questions, call)
