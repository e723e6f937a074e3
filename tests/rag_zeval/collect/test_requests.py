"""The templates of the docs, against servers that take and send what these interfaces document; and what is refused."""

import json
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response

from rag_zeval.collect.request_body import RequestBody
from rag_zeval.errors import InputError
from rag_zeval.files import Row, read_jsonl
from rag_zeval.ports import listen, send

PAGE = (Path(__file__).parents[3] / "docs" / "test-sets.md").read_text(encoding="utf-8")
SECTION = PAGE.split("### Requests of another form\n")[1].split("\n### ")[0]
TEMPLATES = dict(re.findall(r"`(\w+\.json)`.*?```json\n(.*?)```", SECTION, re.DOTALL))
COMMANDS = [shlex.split(line) for line in re.findall(r"^    (rag-zeval .*)$", SECTION.replace("\\\n", " "), re.M)]
KEY = "tk-9f2b77aa10cc"
QUESTION = 'When does "the ferry" go & why?'
FOUND = {"a.md": "It goes at ten.", "b.md": "The tide is high."}


def vectara(headers: Any, body: Row) -> Row:
    assert headers["x-api-key"] == KEY and body["query"] == QUESTION and body["stream_response"] is False
    assert body["search"] == {"corpora": [{"corpus_key": "faq"}], "limit": 5}
    results = [
        {"text": text, "score": 0.8, "part_metadata": {"lang": "eng"}, "document_metadata": {"title": "t"},
         "document_id": id_, "request_corpora_index": 0}
        for id_, text in FOUND.items()
    ]  # fmt: skip
    return {"summary": "At ten.", "response_language": "eng", "search_results": results, "factual_consistency_score": 1}


def openai(headers: Any, body: Row) -> Row:
    assert headers["Authorization"] == KEY and body["input"] == [{"role": "user", "content": QUESTION}]
    assert body["tools"][0]["type"] == "file_search" and body["include"] == ["file_search_call.results"]
    results = [
        {"file_id": id_, "filename": id_, "score": 0.9, "text": text, "attributes": {}} for id_, text in FOUND.items()
    ]
    search = {
        "type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["ferry"], "results": results
    }  # fmt: skip
    text = {"type": "output_text", "text": "At ten.", "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    reply = {
        "id": "resp_1", "object": "response", "created_at": 0, "model": body["model"], "output": [search, message],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": body["tools"],
    }  # fmt: skip
    Response.model_validate(reply)  # the vendor's own description of it
    return reply


def langserve(headers: Any, body: Row) -> Row:
    assert body == {"input": {"input": QUESTION}}
    context = [
        {"id": None, "metadata": {"source": id_}, "page_content": text, "type": "Document"}
        for id_, text in FOUND.items()
    ]
    output = {"input": QUESTION, "context": context, "answer": "At ten."}
    return {"output": output, "metadata": {"run_id": "1", "feedback_tokens": []}}


def fastapi(headers: Any, parameters: list[tuple[str, str]]) -> Row:
    assert sorted(parameters) == [("k", "5"), ("lang", "de"), ("lang", "en"), ("q", QUESTION)]
    return {"answer": "At ten.", "chunks": [*FOUND.values()]}


SERVED: dict[str, Callable[[Any, Any], Row]] = {
    "/v2/query": vectara,
    "/v1/responses": openai,
    "/rag/invoke": langserve,
    "/ask": fastapi,
}


@pytest.fixture
def server(no_proxy: None) -> Iterator[str]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        try:
            if handler.command == "POST":
                asked = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
            else:
                asked = parse_qsl(url.query)
            send(handler, 200, SERVED[url.path](handler.headers, asked))
        except (AssertionError, KeyError) as error:
            send(handler, 400, {"error": {"message": f"{error!r}: {handler.path}"}})

    served = listen("127.0.0.1", 0, GET=answer, POST=answer)
    threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[-1])
def test_the_templates_of_the_docs_ask_servers_of_the_documented_form(
    words: list[str], server: str, run: Any, tmp_path: Path
) -> None:
    for name, text in TEMPLATES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "questions.jsonl").write_text(json.dumps({"id": "1", "question": QUESTION}) + "\n")
    line = [re.sub(r"^https?://[^/]+", server, word) for word in words[1:]]
    done = run(*line, VECTARA_API_KEY=KEY, OPENAI_BEARER=KEY)
    [row] = read_jsonl(tmp_path / words[-1])
    assert (done.returncode, row["status"]) == (0, "ok"), row["status"]
    assert row["answer"] == "At ten." and row["contexts"] == [*FOUND.values()]
    assert row.get("context_ids") == ([*FOUND] if "--context-ids" in words else None)
    assert KEY not in (tmp_path / words[-1]).read_text()
    if "--body" in words:  # the same body resumes the file, another one does not
        path = tmp_path / words[words.index("--body") + 1]
        path.write_text(json.dumps({**json.loads(path.read_text()), "more": 1}))
        refused = run(*line, VECTARA_API_KEY=KEY, OPENAI_BEARER=KEY)
        assert refused.returncode == 2 and "row '1' was collected with a different body" in refused.stderr
        assert "more" not in refused.stderr


def test_a_content_type_of_the_user_takes_the_place_of_ours(
    server: str, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = []

    def answer(headers: Any, body: Row) -> Row:
        kinds.append(headers.get_all("Content-Type"))
        return {"answer": "At ten."}

    monkeypatch.setitem(SERVED, "/own", answer)
    (tmp_path / "q.jsonl").write_text(json.dumps({"question": QUESTION}) + "\n")
    words = ["collect", "q.jsonl", f"--url={server}/own", "--answer=$.answer"]
    assert run(*words, "--out=a.jsonl").returncode == 0
    assert run(*words, "--out=b.jsonl", "--header=content-type=KIND", KIND="application/problem+json").returncode == 0
    assert kinds == [["application/json"], ["application/problem+json"]]


def test_every_template_of_the_docs_is_tested() -> None:
    assert len(COMMANDS) == len(SERVED) == 4 and len(TEMPLATES) == 3


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))


@given(st.text(), st.dictionaries(st.sampled_from("abc"), JSON), JSON)
def test_only_the_places_that_are_named_change(question: str, others: Row, constant: Any) -> None:
    template = {**others, "deep": [{"q": 1, "c": 2}, {"q": others}]}
    body = RequestBody("$.deep[0].q", {"$.deep[-1].q": json.dumps(constant), "new": "no JSON: ["}, template)
    expected = {**others, "deep": [{"q": question, "c": 2}, {"q": constant}], "new": "no JSON: ["}
    assert json.loads(body.sent(question)["content"]) == expected
    assert json.loads(RequestBody().sent(question)["content"]) == {"question": question}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"question_field": "$.none"}, r"--question-field '\$\.none' finds 0 places in the request, expected one"),
        ({"question_field": "$.list[*]"}, r"finds 2 places"),
        ({"question_field": "$"}, r"'\$' finds 0 places"),
        ({"question_field": "$.list["}, r"--question-field '\$\.list\[' is not a JSONPath"),
        ({"constants": {"$.a": "1"}}, r"--constant '\$\.a' finds 0 places"),
        ({"get": True}, "--get sends fields in the URL: field 'inner' must be a text"),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused(arguments: Row, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RequestBody(template={"list": [1, 2], "inner": {}}, **arguments)
