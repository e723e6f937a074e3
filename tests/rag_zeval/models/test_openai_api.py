import asyncio
import base64
import contextlib
import gc
import math
import random
import re
import resource
import socket
import string
import time
from pathlib import Path
from typing import Any

import pytest
from hostile_modes import MODES
from hypothesis import example, given
from hypothesis import strategies as st

from rag_zeval.errors import InputError
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.cache import CachedBackend, ReplyCache
from rag_zeval.models.keys import read_key
from rag_zeval.models.language_model import Reply, Request, Sampling
from rag_zeval.models.open import check_spec, open_backend
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.models.responses.chat_completion import read_completion
from rag_zeval.models.responses.cut_prompts import CutPromptDetector, least_tokens
from rag_zeval.secrets import scrub


def request(text: str = "hello", trial: int = 0) -> Request:
    return Request(({"role": "user", "content": text},), Sampling(max_tokens=50), trial)


def ask(endpoint: Any, *requests: Request, **settings: Any) -> list[Reply]:
    backend = OpenAIBackend("judge", endpoint.url, **settings)
    replies = dict(as_finished(backend.complete, requests or [request()], backend.at_once))
    return [replies[index] for index in range(len(replies))]


def test_a_reply_comes_back_with_its_accounting(endpoint: Any) -> None:
    endpoint.replies = "fine"
    (reply,) = ask(endpoint)
    assert (reply.text, reply.status, reply.prompt_tokens, reply.completion_tokens) == ("fine", "ok", 7, 5)
    assert (reply.calls, reply.retries, reply.cached) == (1, 0, False)
    sent = endpoint.requests[0]
    assert sent["messages"] == [{"role": "user", "content": "hello"}]
    assert (sent["model"], sent["temperature"], sent["top_p"], sent["max_tokens"]) == ("judge", 0.1, 0.9, 50)
    assert "response_format" not in sent and sent["seed"] == request().seed


@pytest.mark.parametrize("fault", [{"status": 429}, {"status": 200, "body": {"error": {"message": "no", "code": 429}}}])
def test_rate_limit_waits_as_told_and_counts_both_calls(endpoint: Any, fault: Any) -> None:
    endpoint.faults, endpoint.replies = [{**fault, "headers": {"Retry-After": "1"}}], "fine"
    started = time.monotonic()
    (reply,) = ask(endpoint)
    assert time.monotonic() - started >= 1  # the client's own first pause is at most half a second
    assert (reply.text, reply.status, reply.calls, reply.retries, len(endpoint.requests)) == ("fine", "ok", 2, 1, 2)


EMPTY_ACCOUNT = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}


@pytest.mark.parametrize(
    ("act", "reason", "calls"),
    [
        ({"status": 500}, "HTTP 500", 2),
        ({"status": 400, "body": {"error": {"message": "too long:\n9 tokens"}}}, "HTTP 400: too long: 9 tokens", 1),
        ({"status": 429, "body": EMPTY_ACCOUNT}, "HTTP 429: You exceeded your current quota", 1),
        ("half", "peer closed", 2),
        ("hang", "no answer within 2 s", 1),
        ({"status": 429, "headers": {"Retry-After": "9"}}, "no answer within 2 s; the last error was HTTP 429", 1),
    ],
)
def test_what_goes_wrong_is_the_status_of_that_request_alone(endpoint: Any, act: Any, reason: str, calls: int) -> None:
    """With the calls it took; tests/hostile/test_http.py has every other way to go wrong."""
    endpoint.faults = [act] * calls
    bad, good = ask(endpoint, request("bad"), request("good"), concurrency=1, max_retries=1, timeout=2)
    assert bad.text is None and bad.status.startswith("failed: ") and reason in bad.status, bad.status
    assert (bad.calls, bad.retries, good.status) == (calls, calls - 1, "ok")
    assert len(endpoint.requests) == bad.calls + good.calls


NOTHING = {"error": {"message": "no such thing"}}
TOO_LONG = {"error": {"message": "The context length is 4096 tokens, but there are 9000 in the messages"}}


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, NOTHING, "HTTP 404: no such thing"),  # an unknown model
        (200, b"<p>Sign in</p>", "the endpoint's answer is not valid JSON"),  # a proxy's page
        (422, NOTHING, None),  # a text that is too long
        (400, TOO_LONG, None),  # the same, as the reader of errors knows it
    ],
)
@pytest.mark.parametrize("answered", [0, 1])
def test_a_server_that_never_answers_is_not_asked_about_everything(
    endpoint: Any, status: int, body: Any, reason: str | None, answered: int
) -> None:
    endpoint.faults = [{"status": status, "body": body}] * 30
    endpoint.faults[:0] = [{"status": 200, "body": {"choices": [{"message": {"content": "fine"}}]}}] * answered
    requests = [request(str(at)) for at in range(30)]
    if reason is None or answered:
        assert len(ask(endpoint, *requests, concurrency=1)) == 30
    else:
        told = f"{endpoint.url}: the first 20 requests failed, so no more are sent; the last one failed: {reason}"
        with pytest.raises(InputError, match=re.escape(told)):
            ask(endpoint, *requests, concurrency=1)
        assert len(endpoint.requests) == 20


def answering(endpoint: Any, *choices: Any, **fields: Any) -> Any:
    """The endpoint, which answers everything with status 200, these choices and fields."""
    endpoint.replies = lambda _: {"status": 200, "body": {**({"choices": choices} if choices else {}), **fields}}
    return endpoint


def fate_of(message: Any, reason: Any = "stop") -> tuple[str | None, str]:
    """Text and status of a reply with this message."""
    try:
        return read_completion({"choices": [{"index": 0, "message": message, "finish_reason": reason}]})
    except ValueError as error:
        return None, str(error)


CUT_OFF = """length LENGTH max_tokens MAX_TOKENS FinishReason.MAX_TOKENS maxTokens model_length max-output-tokens
token_limit model_context_window_exceeded abort time_limit insufficient_system_resource""".split()
FILTERED = """content_filter SAFETY RECITATION PROHIBITED_CONTENT BLOCKLIST SPII content_filtered refusal sensitive
guardrail_intervened""".split()
FILTERED.append("content_filter: RECITATION")
ENDED = ["stop", "STOP", "end_turn", "eos", "stop_sequence", "COMPLETE", "", None, 7]


@pytest.mark.parametrize(
    ("reason", "fate"),
    [
        *((reason, ("said", "truncated")) for reason in CUT_OFF),
        *((reason, ("said", "ok")) for reason in ENDED),
        *(
            (reason, (None, f"a filter of the endpoint stopped the reply (finish_reason {reason})"))
            for reason in FILTERED
        ),
    ],
)
def test_however_a_server_says_why_a_reply_ended_it_is_understood(reason: Any, fate: tuple[str | None, str]) -> None:
    assert fate_of({"content": "said"}, reason) == fate


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "a draft"}]}
SAID = {"type": "text", "text": "the "}
EMPTY = "the reply is empty"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "said", "reasoning_content": "a draft", "reasoning": "a draft"}, "said"),
        ({"content": [THOUGHT, SAID, {"type": "text", "text": "reply"}]}, "the reply"),
        ({"content": [{"type": "output_text", "text": "said", "annotations": []}]}, "said"),
        ({"content": [{"type": "text", "text": {"value": "said", "annotations": []}}]}, "said"),
        ({"content": [{"text": "a draft", "thought": True}, {"text": "said"}]}, "said"),
        ({"content": [{"type": "redacted_thinking", "data": "x"}, {"type": "reasoning"}, SAID]}, "the "),
        ({"content": "said", "tool_calls": []}, "said"),
        ({"content": "said", "refusal": None}, "said"),
    ],
)
def test_what_a_model_said_is_its_text(message: Any, text: str) -> None:
    assert fate_of(message) == (text, "ok")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"content": ""}, EMPTY),
        ({"content": " \n"}, EMPTY),
        ({"content": None}, EMPTY),
        ({}, EMPTY),
        ({"content": []}, EMPTY),
        ({"content": [{"type": "text", "text": ""}]}, EMPTY),
        (
            {"content": "", "reasoning_content": "[1]"},
            "the content is empty; the text is in reasoning_content: '[1]'",
        ),
        ({"content": None, "reasoning": "a draft"}, "the content is empty; the text is in reasoning: 'a draft'"),
        ({"content": [THOUGHT]}, "the content holds only thoughts"),
        ({"content": None, "refusal": "I will not"}, "the model refused: I will not"),
        ({"content": "said", "refusal": "I will not"}, "the model refused: I will not"),
        ({"content": [SAID, {"type": "refusal", "refusal": "no"}]}, "the model refused: no"),
        (
            {"content": None, "tool_calls": [{"id": "1", "function": {"name": "judge", "arguments": "{}"}}]},
            "the model called a tool (judge) and wrote no text",
        ),
        ({"content": "", "tool_calls": [{"id": "1"}]}, "the model called a tool and wrote no text"),
        ({"function_call": {"name": "f"}}, "the model called a tool (f) and wrote no text"),
        ({"content": [SAID, {"type": "text", "text": 7}]}, "the content has a part of type text without a text"),
        ({"content": [SAID, {"type": "image_url"}]}, "the content has a part of type image_url, which is not a text"),
        (
            {"content": [SAID, {"type": "call", "text": "x"}]},
            "the content has a part of type call, which is not a text",
        ),
        ({"content": [SAID, "text"]}, "the content is not a text"),
        ({"content": {"type": "text", "text": "said"}}, "the content is not a text"),
    ],
)
def test_what_is_no_text_is_named(message: Any, reason: str) -> None:
    assert fate_of(message) == (None, reason)


CUT_EARLY = "the reply was cut off before its text began (finish_reason length)"


@pytest.mark.parametrize(
    ("message", "end", "reason"),
    [
        (
            {"content": "", "reasoning_content": "thinking on"},
            "length",
            f"{CUT_EARLY}; the text so far is in reasoning_content: 'thinking on'",
        ),
        ({"content": ""}, "length", CUT_EARLY),
        ({"content": None}, "odd", "the reply is empty (finish_reason odd)"),
    ],
)
def test_a_reply_that_ends_before_it_begins_says_so(message: Any, end: str, reason: str) -> None:
    assert fate_of(message, end) == (None, reason)


@pytest.mark.parametrize("encoding", ["", "Identity"])
def test_an_encoding_that_is_none_is_none(endpoint: Any, encoding: str) -> None:
    body = {"choices": [{"message": {"content": "fine"}}]}
    endpoint.replies = lambda _: {"status": 200, "body": body, "headers": {"Content-Encoding": encoding}}
    assert ask(endpoint)[0].text == "fine"


def test_a_filter_may_leave_out_the_message() -> None:
    with pytest.raises(ValueError, match="a filter of the endpoint stopped the reply"):
        read_completion({"choices": [{"index": 0, "finish_reason": "content_filter: PROHIBITED_CONTENT"}]})


def test_of_several_choices_the_first_counts_wherever_it_stands(endpoint: Any) -> None:
    ends = {1: "stop", 0: "length"}
    choices = [{"index": at, "message": {"content": str(at)}, "finish_reason": end} for at, end in ends.items()]
    (reply,) = ask(answering(endpoint, *choices))
    assert (reply.text, reply.status) == ("0", "truncated")


RIGHT = {"message": {"content": "[1]"}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("body", "status", "calls"),
    [
        ({"choices": None, "error": {"message": "slow down", "code": 429}}, "error 429: slow down", 2),
        ({"error": {"message": "slow down", "code": "429"}}, "error 429: slow down", 2),
        ({"error": {"message": "no", "type": "rate_limit_error"}, "type": "error"}, "error 429: no", 2),
        ({"error": {"message": "no", "status": "UNAVAILABLE"}}, "error 503: no", 2),
        ([{"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}], "error 503: overloaded", 2),
        ({"error": "broken", "status": 500}, "error 500: broken", 2),
        ({"object": "error", "message": "broken", "type": "InternalServerError", "code": 500}, "error 500: broken", 2),
        ({"detail": "too many", "status": 429}, "error 429: too many", 2),
        ({"errors": [{"code": 529, "message": "busy"}], "success": False}, "error 529: busy", 2),
        ({"choices": [{"error": {"code": 502, "message": "idle"}, "finish_reason": "error"}]}, "error 502: idle", 2),
        ({"choices": [{**RIGHT, "error": {"code": 502, "message": "idle"}}]}, "error 502: idle", 2),
        ({"choices": [RIGHT], "error": {"message": "no", "code": 400}}, "error 400: no", 1),
        ({"error": {"message": "no such key", "code": 401}}, "error 401: no such key", 1),
        (
            {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "too long"}}},
            "error 400: Provider returned error: too long",
            1,
        ),
        ({"error": {"message": "no", "code": "content_filter"}}, "an error: no", 1),
        ({"error": {"message": "no", "code": 1302}}, "an error: no", 1),
        ({"error": {"message": "no", "code": True}}, "an error: no", 1),
        ({"detail": "no"}, "an error: no", 1),
        ({"message": "no"}, "an error: no", 1),
    ],
)
def test_an_error_in_an_answer_is_that_of_its_http_status(endpoint: Any, body: Any, status: str, calls: int) -> None:
    endpoint.replies = lambda _: {"status": 200, "body": body}
    (reply,) = ask(endpoint, max_retries=1)
    assert (reply.text, reply.status) == (None, f"failed: HTTP 200 with {status}")
    assert (reply.calls, reply.retries, len(endpoint.requests)) == (calls, calls - 1, calls)


@pytest.mark.parametrize("none", [None, "", {}, [], 0, False])
def test_an_error_that_is_none_is_none(endpoint: Any, none: Any) -> None:
    assert ask(answering(endpoint, {**RIGHT, "error": none}, error=none, detail="x"))[0].text == "[1]"


def test_what_is_refused_within_an_answer_is_asked_for_otherwise(endpoint: Any, capsys: Any) -> None:
    refusal = {"message": "Unsupported parameter: 'max_tokens'", "code": 400, "param": "max_tokens"}
    endpoint.faults = [{"status": 200, "body": {"error": refusal}}]
    endpoint.replies = "fine"
    assert ask(endpoint)[0].text == "fine" and "rejects max_tokens" in capsys.readouterr().err
    assert "max_completion_tokens" in endpoint.requests[1]


LONG = " ".join(f"word{at} is" for at in range(5000))  # at least 10,000 tokens


def read_of(endpoint: Any, usage: Any, *texts: str, message: Any = None) -> list[str]:
    """The status of each text where the server tells this usage."""
    answering(endpoint, {**RIGHT, **({"message": message} if message else {})}, usage=usage)
    return [reply.status for reply in ask(endpoint, *map(request, texts), concurrency=1)]


@pytest.mark.parametrize("read", [512, 2048, 4095, 6600])
def test_a_prompt_that_was_cut_has_no_reply(endpoint: Any, read: int) -> None:
    said = f"failed: the server read only {read} of about {len(LONG) // 4} tokens"
    assert read_of(endpoint, {"prompt_tokens": read}, LONG, "short") == [said, "ok"]
    assert read_of(endpoint, {"prompt_tokens": read}, LONG, message={"content": ""}) == [said]  # that is why


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 10_000},
        {"prompt_tokens": 6_700},
        {"prompt_tokens": 0},
        {"prompt_tokens": 7},
        {"prompt_tokens": 511},
        {"prompt_tokens": "2048"},
        {"prompt_tokens": None},
        {},
        None,
        {"prompt_tokens": 600, "prompt_tokens_details": {"cached_tokens": 9_400}},
        {"prompt_tokens": 600, "cache_read_input_tokens": 9_400},
        {"prompt_tokens": 600, "cached_tokens": 9_400},
        {"prompt_tokens": 600, "prompt_cache_hit_tokens": 9_400},
    ],
)
def test_a_server_that_counts_otherwise_is_not_accused(endpoint: Any, usage: Any) -> None:
    assert read_of(endpoint, usage, LONG) == ["ok"]


def test_a_server_that_read_more_before_has_no_window_that_small() -> None:
    prompts = CutPromptDetector()
    for count in (10_000, 2_048, 4_900):  # of equal texts, the second mostly from its cache
        prompts.check(LONG, {"usage": {"prompt_tokens": count}})


def test_a_reply_to_a_cut_prompt_is_not_cached(endpoint: Any, tmp_path: Path) -> None:
    answering(endpoint, RIGHT, usage={"prompt_tokens": 2048})
    with ReplyCache(tmp_path / "cache.sqlite") as cache:
        backend = CachedBackend(OpenAIBackend("judge", endpoint.url), cache)
        for _ in range(2):
            ((_, reply),) = as_finished(backend.complete, [request(LONG)], 1)
            assert reply.status.startswith("failed: the server read only") and not reply.cached
    assert len(endpoint.requests) == 2


def test_a_reply_longer_than_a_judge_can_mean_is_not_read(endpoint: Any) -> None:
    """It would take a gigabyte to look for what it repeats."""
    endpoint.replies = lambda request: "x" * int(request["messages"][0]["content"])
    longest, longer = ask(endpoint, request("1000000"), request("1000001"))
    assert (longest.text, longest.status) == ("x" * 1_000_000, "ok")
    told = "failed: the reply has 1,000,001 characters; at most 1,000,000 are read"
    assert (longer.text, longer.status) == (None, told)


def test_requests_overlap_up_to_the_limit_in_one_event_loop_after_the_other(endpoint: Any) -> None:
    endpoint.delay = 0.15
    backend = OpenAIBackend("judge", endpoint.url, concurrency=3)

    def statuses() -> list[str]:
        return [reply.status for _, reply in as_finished(backend.complete, map(request, "abcdefghi"), at_once=9)]

    async def notebook() -> list[str]:
        return statuses()

    assert statuses() == statuses() == asyncio.run(notebook()) == ["ok"] * 9
    assert endpoint.open_most == 3


@pytest.mark.parametrize("status", [403, 404, 405, 500])
def test_a_server_without_a_model_list_works(endpoint: Any, capsys: Any, status: int) -> None:
    endpoint.models_status = status
    assert ask(endpoint)[0].status == "ok"
    said = capsys.readouterr().err
    assert said.startswith(f"note: {endpoint.url}/models: HTTP {status}; sending requests anyway")
    assert ("check the URL" in said) == (status == 404)


def test_a_key_that_may_not_list_models_is_good_for_requests(endpoint: Any, capsys: Any) -> None:
    endpoint.models_status = 401
    replies = ask(endpoint, request("a"), request("b"))
    assert [(reply.status, reply.calls) for reply in replies] == [("ok", 1), ("ok", 1)]
    assert endpoint.requests[0] == {} and len(endpoint.requests) == 3 and capsys.readouterr().err == ""


@pytest.mark.parametrize("are_cancelled", [False, True])
def test_a_server_that_comes_later_is_found(
    endpoint: Any, are_cancelled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A program that runs for long may start before its judge."""

    async def ask_twice() -> str:
        backend = open_backend(endpoint.spec())
        endpoint.models_status, endpoint.replies = 401, lambda _: {"status": 401}
        first = [asyncio.create_task(backend.complete(request())) for _ in range(3)]
        await asyncio.sleep(0)
        for task in first if are_cancelled else ():
            task.cancel()
        for reply in await asyncio.gather(*first, return_exceptions=True):
            assert isinstance(reply, asyncio.CancelledError if are_cancelled else InputError)
        if checks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(checks)
        endpoint.models_status, endpoint.replies = 200, "fine"
        return (await backend.complete(request())).status

    assert asyncio.run(ask_twice()) == "ok"
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_refused_key_is_one_line_and_does_not_show_it(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-secret")
    endpoint.models_status, endpoint.replies = 401, lambda _: {"status": 401}
    with pytest.raises(InputError, match="refuses the API key in JUDGE_KEY") as error:
        ask(endpoint, api_key_env="JUDGE_KEY")
    assert "sk-secret" not in str(error.value)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InputError, match=r"needs an API key .* OPENAI_API_KEY is not set"):
        ask(endpoint)


def test_the_key_comes_from_the_named_variable_and_is_not_kept(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-secret")
    backend = open_backend(endpoint.spec(), api_key_env="JUDGE_KEY")
    list(as_finished(backend.complete, [request()], 1))
    assert endpoint.headers[0]["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in repr(vars(backend)) + backend.identity + backend.name


def test_headers_of_a_gateway_go_with_every_request_and_a_secret_among_them_is_not_shown(
    endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: customer service claims\n\n ocp-apim-key:kr9f8e-subscription ")
    monkeypatch.setenv("JUDGE_KEY", "kr4711-of-the-judge")
    endpoint.models_status = 401  # so the key is tried with a second request
    told = "customer service claims: kr9f8e-subscription"
    endpoint.replies = lambda body: told if body else {"status": 400, "body": {"error": {"message": "no messages"}}}
    (reply,) = ask(endpoint, api_key_env="JUDGE_KEY")
    for sent in endpoint.headers:
        assert (sent["x-team"], sent["ocp-apim-key"]) == ("customer service claims", "kr9f8e-subscription")
        assert sent["authorization"] == "Bearer kr4711-of-the-judge"
    assert len(endpoint.headers) == 2 and reply.text == "customer service claims: [key]"


def test_a_gateway_may_want_another_authorization_than_the_key(endpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "authorization: Basic YW5uOnNlc2FtZTQ3MTE=")
    endpoint.models_status, endpoint.replies = 401, "the password is sesame4711"
    assert ask(endpoint)[0].text == "the password is [key]"
    assert {sent["authorization"] for sent in endpoint.headers} == {"Basic YW5uOnNlc2FtZTQ3MTE="}


@pytest.mark.parametrize("line", ["X-Team", "X-Team:", ": kr4711", "X Team: kr4711", "X-Team: kr4711 für uns"])
def test_a_line_that_is_no_header_is_named_and_not_shown(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-Good: yes\n{line}")
    with pytest.raises(InputError, match="OPENAI_CUSTOM_HEADERS, line 2: expected NAME: value") as error:
        open_backend("openai:judge@http://127.0.0.1:9/v1")
    assert "4711" not in str(error.value)


def test_extra_fields_are_sent_also_in_a_changed_request_and_make_another_model(endpoint: Any) -> None:
    extra = {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}}
    endpoint.replies = "fine"
    endpoint.faults.append({"status": 400, "body": {"error": {"message": "seed is not supported", "param": "seed"}}})
    (reply,) = ask(endpoint, extra_body=extra)
    first, second = endpoint.requests
    assert reply.text == "fine" and {"seed": first["seed"], **second} == first and "seed" not in second
    (_,) = ask(endpoint)
    assert first == {**endpoint.requests[2], **extra}
    plain, other, same = (OpenAIBackend("m", endpoint.url, extra_body=one).identity for one in (None, extra, {**extra}))
    assert plain == f"{endpoint.url} m" and plain != other == same


@pytest.mark.parametrize(
    ("spec", "extra", "why"),
    [
        ("openai:m", {"temperature": 0}, "leave out 'temperature'; RAG-Zeval sets it itself"),
        ("openai:m", {"stream": True}, "leave out 'stream'"),
        ("openai:m", {"think": {1, 2}}, "cannot be sent as JSON: Object of type set is not JSON serializable"),
        ("openai:m", {"think": math.nan}, "cannot be sent as JSON: "),
        ("openai:m", {"litellm": {"api_key": "sk-1234567890abcdef"}}, "holds an API key"),
        ("transformers:x", {"think": False}, "transformers:x gets no requests; only endpoints can have extra fields"),
    ],
)
def test_extra_fields_that_no_request_can_have_are_refused(spec: str, extra: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError) as error:
        open_backend(spec, extra_body=extra)
    assert str(error.value).startswith("extra_body: ") and why in str(error.value) and "sk-1" not in str(error.value)


KEY = "sk-canary+0123456789/abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("value", "key"), [(f"{KEY}\r", KEY), (f"{KEY}\r\n", KEY), (f" \t{KEY}\n", KEY), (" \r\n", None)]
)
def test_white_space_around_a_key_is_none_of_it(monkeypatch: pytest.MonkeyPatch, value: str, key: str | None) -> None:
    monkeypatch.setenv("JUDGE_KEY", value)
    assert read_key("JUDGE_KEY") == key


@pytest.mark.parametrize("value", ["key\r\nX: y", "key\x01", "key\x7f", "keyé", "\ufeffkey", "\u201ckey\u201d"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("JUDGE_KEY", value)
    with pytest.raises(InputError) as error:
        read_key("JUDGE_KEY")
    assert (
        str(error.value)
        == "environment variable JUDGE_KEY does not hold an API key: an HTTP header cannot carry its value"
    )


@pytest.mark.parametrize("value", ["anything", "not-needed", "lm-studio", "No-Key.Required"])
def test_a_stand_in_for_a_key_is_an_ordinary_word(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Servers that need no key get one from their documentation; a text to be judged may hold the same word."""
    monkeypatch.setenv("JUDGE_KEY", value)
    text = f"She did not eat {value} at all."
    assert read_key("JUDGE_KEY") == value and scrub(text) == text
    monkeypatch.setenv("JUDGE_KEY", value + "4711")
    assert read_key("JUDGE_KEY") == value + "4711" and "4711" not in scrub(f"the key is {value}4711.")


def test_what_stands_beside_the_key_is_kept(hostile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    hostile.set("the key around a reply")
    (reply,) = ask(hostile)
    assert reply.text == f"Bearer [key]\n```json\n{hostile.honest({})}\n```\n[key]"


UNANSWERED = ["hangs", "drips headers", "endless 1xx, slowly"]
UNENDED = ["hangs after the headers", "drips the body", "an endless body", "a gzip bomb", "endless tiny chunks"]


@pytest.mark.parametrize("mode", [*UNANSWERED, *UNENDED])
def test_the_list_of_models_is_not_read_and_not_waited_for(hostile: Any, capsys: Any, mode: str) -> None:
    hostile.set(mode, on_models=True)
    started = time.monotonic()
    (reply,) = ask(hostile, connect_timeout=0.5)
    assert time.monotonic() - started < 3 and reply.status == "ok"
    note = f"note: {hostile.url}/models: no answer within 0.5 s; sending requests anyway\n"
    assert capsys.readouterr().err == (note if mode in UNANSWERED else "")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks://user:hunter2-secret@127.0.0.1:7890"),
        ("HTTP_PROXY", "http://user:hunter2-secret@127.0.0.1:port"),
        ("SSL_CERT_FILE", "/nowhere/certificates.pem"),
    ],
)
def test_a_proxy_or_certificate_that_cannot_be_used_is_one_line(
    no_proxy: None, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError, match=variable) as error:
        asyncio.run(open_backend("openai:judge@http://127.0.0.1:1/v1").complete(request()))
    assert "hunter2-secret" not in str(error.value)


@pytest.mark.parametrize(
    ("variables", "through"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": "PROXY"}, ""),
        ({"HTTP_PROXY": "PROXY", "NO_PROXY": "127.0.0.1"}, ""),
        ({"HTTP_PROXY": "PROXY"}, " through the proxy in HTTP_PROXY"),
        ({"all_proxy": "PROXY"}, " through the proxy in ALL_PROXY"),
    ],
)
def test_a_proxy_is_named_where_a_server_cannot_be_reached(
    no_proxy: None, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], through: str
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("PROXY", "http://127.0.0.1:1"))
    with pytest.raises(InputError) as error:
        asyncio.run(open_backend("openai:judge@http://127.0.0.1:2/v1").complete(request()))
    assert str(error.value) == f"cannot reach http://127.0.0.1:2/v1{through}: connection refused"


def test_the_reason_within_a_group_of_errors_is_told(no_proxy: None) -> None:
    with pytest.raises(InputError, match="port must be 0-65535"):
        asyncio.run(open_backend("openai:judge@http://127.0.0.1:99999/v1").complete(request()))


def test_a_connection_that_does_not_come_is_one_line(no_proxy: None) -> None:
    with socket.socket() as full, contextlib.ExitStack() as others:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):  # nobody accepts: the next ones wait
            waiting = others.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        with pytest.raises(InputError) as error:
            list(as_finished(open_backend(f"openai:judge@{url}", connect_timeout=0.5).complete, [request()], 1))
    assert str(error.value) == f"cannot reach {url}: no connection within 0.5 s"


def modes(pattern: str) -> list[str]:
    return [mode for mode in MODES if re.search(pattern, mode)]


PACKED = "the answer is packed (Content-Encoding …"
REASONS = {  # by mode; "…" stands for any text
    **dict.fromkeys(modes("endless|^hangs$|drips the body"), "…"),
    **dict.fromkeys(modes("endless body|MB"), "the answer is longer than 1 MiB"),
    **dict.fromkeys(modes("gzip|deflate|encoding"), PACKED),
    **dict.fromkeys(modes("^30[12378]"), "HTTP 30…"),
    **{mode: f"HTTP {mode[:3]}: redirects to ELSEWHERE; prompts are not sent there" for mode in modes("elsewhere")},
    "an error as text": "HTTP 403: the quota is used up",
    "an error as HTML": "HTTP 502: <html><body><h1>502 Bad Gateway</h1></body></html>",
    "an error as a list": 'HTTP 400: [1, {"message": 5}]',
    "500 without a word": "HTTP 500",
    "an error of escapes": "HTTP 400: [2J ]0;owned 31m txt.exe",
    "an error as text of escapes": "HTTP 400: [2J ]0;owned 31m txt.exe",
    "an error of half characters": "HTTP 400: no",
    "a reason of escapes": "the reply is empty (finish_reason [2J ]0;owned 31m txt.exe)",
    "events instead of JSON": "the endpoint's answer is not valid JSON: it is a stream of events: turn streaming off…",
    "a list": "the endpoint's answer is not a chat completion: …",
    "an empty object": "the endpoint's answer is not a chat completion: '{}'",
    "JSON that nests": "the endpoint's answer is not valid JSON: brackets without end",
    "an error with status 200": "HTTP 200 with an error: no [2J ]0;owned 31m txt.exe",
    "the key in an error": "HTTP 400: Incorrect API key provided: [key].",
}


@pytest.mark.parametrize(("mode", "reason"), REASONS.items())
def test_a_reason_is_kept_and_harmless_and_nothing_is_unpacked_or_sent_elsewhere(
    hostile: Any, monkeypatch: pytest.MonkeyPatch, mode: str, reason: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    hostile.set(mode)
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    retries = {} if reason == PACKED else {"max_retries": 0}
    (reply,) = ask(hostile, max_body_mib=1, timeout=2 if reason == "…" else 20, **retries)
    assert time.monotonic() - started < 8
    assert reason != PACKED or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024
    assert (hostile.elsewhere, hostile.chats, reply.calls, reply.text) == (0, 1, 1, None)
    start, *more = f"failed: {reason}".replace("ELSEWHERE", f"{hostile.other_url}/chat/completions").split("…")
    assert reply.status.startswith(start) if more else reply.status == start


@pytest.mark.parametrize("mode", modes("^15 MB of (empty|numbers)"))
def test_an_answer_of_many_values_is_not_read(hostile: Any, mode: str) -> None:
    hostile.set(mode)
    (reply,) = ask(hostile)
    assert "more than 1,000,000 values" in reply.status


UNCOUNTED = modes("^(no )?usage")


@pytest.mark.parametrize(
    "mode", ["a mark of byte order", "tiny chunks", "100, then the answer", "a codec of bad repute", *UNCOUNTED]
)
def test_what_can_be_read_is_read_and_a_count_that_is_none_is_not_known(hostile: Any, mode: str) -> None:
    hostile.set(mode)
    started = time.monotonic()
    (reply,) = ask(hostile)
    assert reply.status == "ok" and (reply.text or "").startswith(hostile.honest({})) and time.monotonic() - started < 2
    assert mode not in UNCOUNTED or (reply.prompt_tokens, reply.completion_tokens) == (None, None)


@pytest.mark.parametrize("mode", ["two answers at once", "an answer too many, later"])
def test_an_answer_nobody_asked_for_is_nobodys(hostile: Any, mode: str) -> None:
    hostile.set(mode)
    replies = ask(hostile, *(request(str(i)) for i in range(12)), concurrency=2)
    assert {reply.text for reply in replies} <= {hostile.honest({}), None}


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", -1.0), ("temperature", math.nan), ("top_p", 1.1), ("top_p", math.nan), ("max_tokens", 0)],
)
def test_sampling_that_no_model_can_do_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^{name} is .*, must be"):
        Sampling(**{name: value})


def test_trials_have_seeds_of_their_own() -> None:
    first, second, other = request().seed, request(trial=1).seed, request("other").seed
    assert first == request().seed and len({first, second, other}) == 3


@pytest.mark.parametrize(
    "spec",
    [
        "openai:",
        "openai:m@host:8000/v1",
        "openai:host:8000",
        "openai:host/v1",
        "openai:m@ftp://host",
        "openai:m@http://host:port/v1",
        "openai:m@http://me:secret@host/v1",
        "openai:m@http://secret@host/v1",
        "openai:m@http://me:secret@http://host/v1",
        "openai:m@https://host?key=secret",
        "openai:m@https://host/v1#secret",
        "opnai:m@http://me:secret@host/v1",
        "http://me:secret@host/v1",
        "vllm:http://me:secret@host/v1",
    ],
)
def test_a_bad_spec_is_refused_and_a_secret_in_it_not_shown(spec: str) -> None:
    for check in (check_spec, open_backend):
        with pytest.raises(InputError) as error:
            check(spec)
        assert str(error.value) == (
            "model 'openai:…': expected openai:MODEL@http://host:port/v1, without user, password or query"
        )


@pytest.mark.parametrize("host", ["192.168.1.300", "999.1.1.1:80", "[:::]", "[abcd]:80"])
def test_an_address_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(InputError, match="does not appear to be an IPv4 or IPv6 address"):
        check_spec(f"openai:m@http://{host}/v1")


@pytest.mark.parametrize("path", ["/chat/completions", "/embeddings"])
def test_the_url_of_a_request_is_no_base_url(path: str) -> None:
    assert check_spec(f"openai:m@http://host{path}/v1") == ("m", f"http://host{path}/v1")
    for end in ("", "/"):
        with pytest.raises(InputError, match=f"leave {path} out of the URL"):
            check_spec(f"openai:m@http://host/v1{path}{end}")


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("openai:judge@http://host", ("judge", "http://host")),
        ("openai:gpt-4o-mini", ("gpt-4o-mini", "https://api.openai.com/v1")),
        (
            "openai:ft:gpt-4o-mini-2024-07-18:us::Ab1",
            ("ft:gpt-4o-mini-2024-07-18:us::Ab1", "https://api.openai.com/v1"),
        ),
        (
            "openai:anthropic/claude-sonnet@https://openrouter.ai/api/v1",
            ("anthropic/claude-sonnet", "https://openrouter.ai/api/v1"),
        ),
        ("openai:qwen2.5:7b@http://localhost:11434/v1", ("qwen2.5:7b", "http://localhost:11434/v1")),
        (
            "openai:my-deployment@https://my-name.openai.azure.com/openai/v1",
            ("my-deployment", "https://my-name.openai.azure.com/openai/v1"),
        ),
        (
            "openai:gemini-2.5-flash@https://generativelanguage.googleapis.com/v1beta/openai",
            ("gemini-2.5-flash", "https://generativelanguage.googleapis.com/v1beta/openai"),
        ),
        ("openai:Qwen/Qwen2.5-7B@https://a-host:8000/v1/", ("Qwen/Qwen2.5-7B", "https://a-host:8000/v1/")),
        ("openai:@cf/qwen:7b@http://[::1]:80/a/b-c/v1", ("@cf/qwen:7b", "http://[::1]:80/a/b-c/v1")),
        ("openai:m@http://1.2.3.400.nip.io/v1", ("m", "http://1.2.3.400.nip.io/v1")),
        ("runs/not/there", None),
        ("transformers:C@D", None),
        ("vllm:folder", None),
    ],
)
def test_specs_are_read(spec: str, found: tuple[str, str] | None) -> None:
    assert check_spec(spec) == found


# Where the tokenizers of GPT, Llama 3, Qwen and others let a token begin at the latest: each piece is one at least.
PIECE = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?\w+| ?[^\s\w]+|\s+(?!\S)|\s+")
CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff]")
LONGEST_CJK = 11  # characters of a token in o200k and in Qwen's vocabulary: "ありがとうございました"


def fewest(text: str) -> float:
    """The fewest tokens of any such tokenizer, were every piece in its vocabulary."""
    return len(PIECE.findall(text)) + len(CJK.findall(text)) / LONGEST_CJK


RNG = random.Random(0)
ADVERSARIAL = {
    "spaces": " " * 100_000,
    "spaced dots": ". " * 50_000,
    "dots": "." * 100_000,
    "one word": "no " * 30_000,
    "one line": "the same line again\n" * 5_000,
    "one letter words": " ".join(RNG.choices(string.ascii_letters, k=20_000)),
    "words that are tokens": " ".join(RNG.choices([f"w{at}" for at in range(5_000)], k=50_000)),
    "spaces between": "".join(word + " " * RNG.randrange(1, 80) for word in RNG.choices(string.printable, k=5_000)),
    "base64": base64.b64encode(RNG.randbytes(75_000)).decode(),
    "base64 in lines": base64.encodebytes(RNG.randbytes(75_000)).decode(),
    "hex": RNG.randbytes(50_000).hex(),
    "minified": ";".join(f"a[{at}]=b({at})" for at in range(10_000)),
    "code": "\n".join(f"{' ' * 40}x_{at} = call(y_{at})" for at in range(3_000)),
    "Chinese": "".join(RNG.choices([chr(at) for at in range(0x4E00, 0x9000)], k=50_000)),
    "long Japanese tokens": "".join(RNG.choices(["ありがとうございました", "お願いいたしますですよ"], k=5_000)),
    "mixed scripts": "".join(f"{RNG.choice('AB0')}{chr(at)}" for at in range(0x4E00, 0x9000)),
    "Thai": "".join(RNG.choices([chr(at) for at in range(0x0E01, 0x0E2F)], k=50_000)),
    "emoji": "\U0001f600" * 50_000,
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_no_tokenizer_makes_fewer_tokens_of_any_text(name: str) -> None:
    assert least_tokens(ADVERSARIAL[name]) <= fewest(ADVERSARIAL[name])


@given(st.text() | st.text("ab. \n\t中の가"))
@example("0ぁ0一0")
def test_nor_of_short_ones(text: str) -> None:
    assert least_tokens(text) <= fewest(text)


def test_of_plain_text_more_than_half_of_the_words_are_sure() -> None:
    words = [f"{a}{b}{c}ing" for a in "bdfgk" for b in "aeiou" for c in "lmnprst"]
    prose = " ".join(RNG.choices(words, k=6_000))  # no tokenizer makes less than a token of each
    assert least_tokens(prose) > 3_500
    assert least_tokens(ADVERSARIAL["Chinese"]) > 4_000
