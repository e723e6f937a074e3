"""The adapters on objects of the frameworks, where these are installed, and on the same shapes without them."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rag_zeval.adapters import langchain, llama_index
from rag_zeval.collect.answers import read_questions, still_to_ask
from rag_zeval.files import Row, read_jsonl
from rag_zeval.rows import RowWriter

TEXTS = {"a#1": "The ferry goes at ten.", "b#1": "Dogs are free."}


@pytest.fixture
def questions(tmp_path: Path) -> list[Row]:
    rows = [{"id": 1, "question": "When?", "truth": "At ten", "slice_tag": "times"}, {"id": "bad", "question": "Fail!"}]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_questions(tmp_path / "q.jsonl")


def check(rows: list[Row], reason: str = "RuntimeError: no such ferry") -> None:
    good, bad = rows
    assert good.pop("latency_s") > 0
    assert good == {
        "id": "1", "question": "When?", "truth": "At ten", "slice_tag": "times", "answer": "At ten.", "status": "ok",
        "contexts": [*TEXTS.values()], "context_ids": [*TEXTS],
    }  # fmt: skip
    failed = {"answer": None, "status": f"failed: {reason}", "latency_s": None}
    assert bad == {"id": "bad", "question": "Fail!", **failed}


def retrieved(question: str, make: Any) -> list[Any]:
    if question == "Fail!":
        raise RuntimeError("no such\nferry")
    return [make(id_, text) for id_, text in TEXTS.items()]


def test_a_chain_of_langchain(questions: list[Row]) -> None:
    documents = pytest.importorskip("langchain_core.documents")
    runnables = pytest.importorskip("langchain_core.runnables")
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever

    class Retriever(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            return retrieved(query, lambda id_, text: documents.Document(id=id_, page_content=text))

    prompt = ChatPromptTemplate.from_template("{context} {input}")
    answer = prompt | FakeListChatModel(responses=["At ten."]) | StrOutputParser()
    context = (lambda given: given["input"]) | Retriever()
    chain = runnables.RunnablePassthrough.assign(context=context).assign(answer=answer)
    check(list(langchain.ask(chain, questions)))

    unnamed = runnables.RunnableLambda(
        lambda given: {"result": "Ten.", "source_documents": [documents.Document(page_content="The ferry.")]}
    )
    keys = {"question": "query", "answer": "result", "contexts": "source_documents"}
    row, _ = langchain.ask(unnamed, questions, **keys)
    assert row["answer"] == "Ten." and row["contexts"] == ["The ferry."] and "context_ids" not in row


def test_a_query_engine_of_llama_index(questions: list[Row]) -> None:
    schema = pytest.importorskip("llama_index.core.schema")
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.response_synthesizers import BaseSynthesizer
    from llama_index.core.retrievers import BaseRetriever

    class Retriever(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[Any]:
            def node(id_: str, text: str) -> Any:  # of both classes
                kept = {"text": text} if id_ == "a#1" else {"text_resource": schema.MediaResource(text=text)}
                of = schema.TextNode if id_ == "a#1" else schema.Node
                return schema.NodeWithScore(node=of(id_=id_, **kept), score=1.0)

            return retrieved(query_bundle.query_str, node)

    class Synthesizer(BaseSynthesizer):
        def get_response(self, query_str: str, text_chunks: Any, **settings: Any) -> str:
            return "At ten."

        async def aget_response(self, query_str: str, text_chunks: Any, **settings: Any) -> str:
            return "At ten."

        def _get_prompts(self) -> Any:
            return {}

        def _update_prompts(self, prompts: Any) -> None:
            pass

    engine = RetrieverQueryEngine(Retriever(), Synthesizer(llm=MockLLM()))
    check(list(llama_index.ask(engine, questions)))


def test_neither_framework_is_needed(questions: list[Row]) -> None:
    def invoke(given: dict[str, str]) -> dict[str, Any]:
        shape = lambda id_, text: SimpleNamespace(id=id_, page_content=text)  # noqa: E731
        return {**given, "answer": "At ten.", "context": retrieved(given["input"], shape)}

    def query(question: str) -> SimpleNamespace:
        def shape(id_: str, text: str) -> SimpleNamespace:
            return SimpleNamespace(node=SimpleNamespace(node_id=id_, get_content=lambda: text), score=1.0)

        return SimpleNamespace(response="At ten.", source_nodes=retrieved(question, shape))

    check(list(langchain.ask(SimpleNamespace(invoke=invoke), questions)))
    check(list(llama_index.ask(SimpleNamespace(query=query), questions)))


def test_a_chain_that_returns_something_else_says_what(questions: list[Row]) -> None:
    row, _ = langchain.ask(SimpleNamespace(invoke=lambda given: {**given, "result": "Ten."}), questions)
    assert "no 'answer' and no 'context' in what the chain returns: {'input': 'When?', 'result'" in row["status"]
    row, _ = langchain.ask(SimpleNamespace(invoke=lambda given: "the answer"), questions)
    assert "no 'answer' and no 'context' in what the chain returns: 'the answer'" in row["status"]
    key = "sk-" + "aZ4b" * 12
    row, _ = langchain.ask(SimpleNamespace(invoke=lambda given: f"{'x' * 71} {key}"), questions)
    assert key[:5] not in row["status"]


def test_answers_are_kept_as_they_come_and_only_failed_ones_are_asked_again(
    questions: list[Row], tmp_path: Path
) -> None:
    asked: list[str] = []

    def query(question: str) -> SimpleNamespace:
        asked.append(question)
        if question == "Fail!" and asked.count(question) < 3:
            raise (RuntimeError if asked.count(question) == 1 else KeyboardInterrupt)
        return SimpleNamespace(response="At ten.", source_nodes=[])

    def collect() -> None:
        with RowWriter(tmp_path / "answers.jsonl") as rows:
            for row in llama_index.ask(SimpleNamespace(query=query), still_to_ask(rows, questions)):
                rows.append(row)

    collect()
    with pytest.raises(KeyboardInterrupt):
        collect()
    collect()
    assert asked == ["When?", *["Fail!"] * 3]
    assert [row["answer"] for row in read_jsonl(tmp_path / "answers.jsonl")] == ["At ten."] * 2
    collect()
    assert len(asked) == 4


def test_an_answer_that_is_no_text_fails(questions: list[Row]) -> None:
    said = SimpleNamespace(response=None, source_nodes=[])
    row, _ = llama_index.ask(SimpleNamespace(query=lambda question: said), questions)
    assert row["status"] == "failed: ValueError: answer: expected text, found NoneType"
