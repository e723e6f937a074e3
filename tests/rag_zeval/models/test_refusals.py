"""Endpoints that keep the documented rules of vendors, and what a run learns from being refused."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rag_zeval.files import read_jsonl
from rag_zeval.judge.parser import as_reply, parse_strict, response_schema
from rag_zeval.judge.prompt import VARIANTS
from rag_zeval.judge.schema import LETTERS, AtomicClaim, CandidateEvaluation
from rag_zeval.literal_judge import count_tokens, literal_reply
from rag_zeval.models.as_finished import as_finished
from rag_zeval.models.endpoint import MOST_MENDS
from rag_zeval.models.language_model import Request
from rag_zeval.models.openai_api import OpenAIBackend
from rag_zeval.models.refusals import Refusals, in_an_object, unwrapped

Body = dict[str, Any]
Rule = Callable[[Body], "Body | None"]  # the error, if the request breaks it


def error(message: str, param: str | None, code: str | None) -> Body:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def limit(body: Body) -> int:
    return int(body.get("max_tokens", body.get("max_completion_tokens", 0)))


def prompt_tokens(body: Body) -> int:
    return sum(count_tokens(message["content"]) for message in body["messages"])


def refusing(parameter: str, but_for: Any, *told: Any) -> Rule:
    """Refuses a parameter that has any other value than this one, with the error that is `told`."""
    return lambda body: error(*told) if body.get(parameter, but_for) != but_for else None


no_max_tokens = refusing(
    "max_tokens",
    None,
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "max_tokens",
    "unsupported_parameter",
)
one_temperature = refusing(
    "temperature",
    1,
    "Unsupported value: 'temperature' does not support 0.1 with this model. Only the default (1) value is supported.",
    "temperature",
    "unsupported_value",
)
one_top_p = refusing(
    "top_p", 1, "Unsupported parameter: 'top_p' is not supported with this model.", "top_p", "unsupported_parameter"
)
no_seed = refusing("seed", None, "Unrecognized request argument supplied: seed", None, None)
no_schema = refusing(
    "response_format", None, "This response_format type is unavailable now", None, "invalid_request_error"
)


def object_root(body: Body) -> Body | None:
    kind = body["response_format"]["json_schema"]["schema"]["type"] if "response_format" in body else "object"
    told = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
    message = f"Invalid schema for response_format 'reply': {told}"
    return error(message, "response_format", None) if kind != "object" else None


WINDOW = 4096


def window(body: Body) -> Body | None:
    prompt, reply = prompt_tokens(body), limit(body)
    told = (
        f"This model's maximum context length is {WINDOW} tokens. However, you requested {prompt + reply} tokens "
        f"({prompt} in the messages, {reply} in the completion). Please reduce the length of the messages.",
        "messages",
        "context_length_exceeded",
    )
    return error(*told) if prompt + reply > WINDOW else None


def window_of_vllm(body: Body) -> Body | None:
    """It counts a prompt no further than it must to refuse it."""
    prompt, reply, name = prompt_tokens(body), limit(body), "max_completion_tokens"
    if reply > WINDOW:
        message = f"{name}={reply}cannot be greater than max_model_len=max_total_tokens={WINDOW}. "
        return error(message + "Please request fewer output tokens.", name, None)
    counted = min(prompt, WINDOW - reply + 1)
    message = (
        f"You passed {counted} input tokens and requested {reply} output tokens. However, the model's context length "
        f"is only {WINDOW} tokens, resulting in a maximum input length of {WINDOW - reply} tokens."
    )
    return error(message, "input_tokens", None) if prompt + reply > WINDOW else None


def short_replies(body: Body) -> Body | None:
    told = "This model supports at most 4096 completion tokens, whereas you provided"
    message = f"max_tokens is too large: {limit(body)}. {told} {limit(body)}."
    return error(message, "max_tokens", None) if limit(body) > 4096 else None


OPENAI = [no_max_tokens, one_temperature, one_top_p, no_seed, object_root, window]
NOTES: dict[Rule, str] = {
    no_max_tokens: "the endpoint rejects max_tokens; sending max_completion_tokens instead",
    one_temperature: "the endpoint rejects this temperature; leaving it out, so that the endpoint decides",
    one_top_p: "the endpoint rejects this top_p; leaving it out, so that the endpoint decides",
    no_seed: "the endpoint rejects this seed; leaving it out, so that the endpoint decides",
    object_root: "the endpoint rejects the schema of a list; asking for an object that holds the list",
    no_schema: "the endpoint rejects this response_format; leaving it out, so that the endpoint decides",
    window: "the window is 4,096 tokens: a reply gets what the prompt leaves of it, at most 8,192",
    window_of_vllm: "the window is 4,096 tokens: a reply gets what the prompt leaves of it, at most 8,192",
    short_replies: "replies are limited to 4,096 tokens, but 8,192 were requested",
}


class RuledJudge:
    """The mock judge for requests that break no rule; it keeps to a schema that is sent."""

    def __init__(self, rules: list[Rule]):
        self.rules = rules
        self.taken: list[Body] = []
        self.refused: Counter[Rule] = Counter()

    def __call__(self, body: Body) -> str | Mapping[str, Any] | None:
        for rule in self.rules:
            if (told := rule(body)) is not None:
                self.refused[rule] += 1
                return {"status": 400, "body": told}
        self.taken.append(body)
        text = literal_reply(body)
        if text is None or "response_format" not in body:
            return text
        schema = body["response_format"]["json_schema"]["schema"]
        reply = {"reply": json.loads(text)} if schema["type"] == "object" else json.loads(text)
        Draft202012Validator(schema).validate(reply)
        return json.dumps(reply)


ROWS = 12


def write_rows(path: Path) -> list[list[float]]:
    """Prompts of different lengths, the longest of more than half the window; the scores that are right."""
    rows = [
        {
            "id": str(n),
            "question": f"Number {n}?",
            "reference": "It rains. " + f"This is sentence {n} of many words. " * (25 * n),
            "answers": ["It rains. It snows."] * (1 + n % 2),
        }
        for n in range(ROWS)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [[0.5] * (1 + n % 2) for n in range(ROWS)]


SETS = [[rule] for rule in NOTES] + [OPENAI, OPENAI[::-1], [no_schema, window_of_vllm, *OPENAI[:4]]]


@pytest.mark.parametrize("rules", SETS, ids=lambda rules: "; ".join(NOTES[rule][:32] for rule in rules))
@pytest.mark.parametrize("structured", [False, True])
def test_every_row_is_scored_and_every_refusal_said_once(
    run: Any, endpoint: Any, tmp_path: Path, rules: list[Rule], structured: bool
) -> None:
    scores = write_rows(tmp_path / "in.jsonl")
    judge = endpoint.replies = RuledJudge(rules)
    words = ["in.jsonl", "--model", endpoint.spec("m"), "--cache", "c.sqlite", *["--structured"] * structured]
    done = run("evaluate", *words, "--out", "o.jsonl")
    assert done.returncode == 0, done.stderr
    rows = sorted(read_jsonl(tmp_path / "o.jsonl"), key=lambda row: int(row["case"]))
    assert [row["scores"] for row in rows] == scores and {row["status"] for row in rows} == {"ok"}

    met = [rule for rule in rules if structured or rule not in (object_root, no_schema)]
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    told = {NOTES[rule] for rule in (*met, *[object_root] * (no_schema in met))}  # who takes no schema is asked twice
    assert sorted(notes) == sorted(f"note: {endpoint.url}: m: {note}" for note in told)
    assert sum(row["calls"] for row in rows) == len(endpoint.requests) == ROWS + judge.refused.total()
    for rule in set(met) - {window, window_of_vllm}:  # prompts of many sizes meet a window again
        assert 1 <= judge.refused[rule] <= 8 * (2 if rule is no_schema else 1)

    for row in rows:  # what was asked for
        assert row["sampling"] == {"temperature": 0.1, "top_p": 0.9, "max_tokens": 8192, "seed": 0}
    last = judge.taken[-1]
    assert ("temperature" in last, "top_p" in last) == (one_temperature not in met, one_top_p not in met)
    assert ("seed" in last, "max_tokens" in last) == (no_seed not in met, no_max_tokens not in met)
    assert ("response_format" in last) == (structured and no_schema not in met)
    if structured and object_root not in met and no_schema not in met:
        sent = last["response_format"]["json_schema"]["schema"]
        assert sent in (response_schema(1, "paper"), response_schema(2, "paper"))

    requests = len(endpoint.requests)
    assert run("evaluate", *words, "--out", "again.jsonl").returncode == 0
    assert len(endpoint.requests) == requests  # from the cache, without a call
    again = {row["id"]: (row["scores"], row["cached"]) for row in read_jsonl(tmp_path / "again.jsonl")}
    assert again == {row["id"]: (row["scores"], True) for row in rows}


def test_a_prompt_that_does_not_fit_fails_alone_and_says_so(run: Any, endpoint: Any, tmp_path: Path) -> None:
    write_rows(tmp_path / "in.jsonl")
    long = {"id": "long", "question": "q", "reference": "It rains. " * 1000, "answers": ["It rains."]}
    longer = {**long, "id": "longer", "reference": "It rains. " * 2000}
    with open(tmp_path / "in.jsonl", "a") as file:
        file.write(json.dumps(long) + "\n" + json.dumps(longer) + "\n")
    judge = endpoint.replies = RuledJudge([window])
    assert run("evaluate", "in.jsonl", "--model", endpoint.spec(), "--out", "o.jsonl").returncode == 0
    rows = {row["case"]: row for row in read_jsonl(tmp_path / "o.jsonl") if "case" in row}
    failed = {id_: row for id_, row in rows.items() if row["scores"] == [None]}
    assert set(failed) == {"long", "longer"} and len(rows) == ROWS + 2
    for row in failed.values():
        told = re.fullmatch(
            r"failed: prompt needs (\d+) tokens, the model's window is 4096 \(reply at least 1024\)", row["status"]
        )
        assert told and int(told[1]) > 4096 - 1024 and row["calls"] == 1
    asked = {message["content"] for body in endpoint.requests for message in body["messages"]}
    assert len(asked) == ROWS + 2  # no prompt was ever cut
    assert min(limit(body) for body in judge.taken) >= 1024


ASKED: Body = {"temperature": 0.1, "top_p": 0.9, "max_tokens": 8192, "seed": 7}
LIST: Body = {"type": "json_schema", "json_schema": {"name": "reply", "schema": response_schema(2, "paper")}}


@pytest.mark.parametrize(
    ("answer", "change"),
    [
        # OpenAI, and proxies of it that drop `param`
        (no_max_tokens(ASKED), {"max_tokens": None, "max_completion_tokens": 8192}),
        ({"detail": "Unsupported parameter: top_p"}, {"top_p": None}),
        (
            error("Invalid 'max_tokens': integer above maximum value. Expected a value <= 4096, but got 8192.", "", ""),
            {"max_tokens": 4096},
        ),
        # Anthropic's, where one of the two may be sent
        (
            {"error": {"message": "`temperature` and `top_p` cannot both be specified for this model."}},
            {"top_p": None},
        ),
        # longest replies: Cohere's; Bedrock's through LiteLLM; Fireworks', which would have to stream; TGI's
        (
            error("too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model - "
                  "received 8192.", None, None),
            {"max_tokens": 4096},
        ),
        (
            error('litellm.BadRequestError: BedrockException - {"message":"The maximum tokens you requested exceeds '
                  'the model limit of 4096. Try again with a maximum tokens value that is lower."}', None, "400"),
            {"max_tokens": 4096},
        ),
        (error("Requests with max_tokens > 4096 must have stream=true", "max_tokens", None), {"max_tokens": 4096}),
        ({"error": "Input validation error: `max_new_tokens` must be <= 2048. Given: 8192"}, {"max_tokens": 2048}),
        (error("The maximum tokens of a prompt are 4096", None, None), None),
        # Mistral's; Gemini's list; DeepSeek's; Groq's; Anthropic's; a gateway's; Moonshot's; LM Studio's: a text
        (
            {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"]}]}},
            {"seed": None},
        ),
        ([{"error": {"code": 400, "message": 'Unknown name "seed": Cannot find field.'}}], {"seed": None}),
        (error("Invalid max_tokens value, the valid range of max_tokens is [1, 4096]", None, ""), {"max_tokens": 4096}),
        (error("`max_tokens` must be less than or equal to `4096`", "max_tokens", ""), {"max_tokens": 4096}),
        (
            error("max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens", None, None),
            {"max_tokens": 4096},
        ),
        (error("max_tokens: at most 4,096 tokens can be written", None, ""), {"max_tokens": 4096}),
        (error("invalid temperature: only 1 is allowed for this model", None, ""), {"temperature": None}),
        (error("This model does not support response format `json_schema`", None, None), {"response_format": dict}),
        ({"error": "'response_format.type' must be 'text'"}, {"response_format": dict}),
        (
            [error("Invalid JSON payload received. Unknown name \"prefixItems\" at "
                   "'generation_config.response_schema': Cannot find field.", None, "400")],
            {"response_format": dict},
        ),
        # windows: Anthropic's, OpenAI's, OpenRouter's, vLLM's of three versions, SGLang's, TGI's and Together's
        (
            error("input length and `max_tokens` exceed context limit: 900 + 8192 > 8500, decrease input length or "
                  "`max_tokens` and try again", None, "invalid_request_error"),
            {"max_tokens": 7600},
        ),
        (
            error("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 3000 `inputs` "
                  "tokens and 8192 `max_new_tokens`", None, None),
            {"max_tokens": 5192},
        ),
        (
            error("This model's maximum context length is 4097 tokens. However, you requested 9092 tokens (900 in the "
                  "messages, 8192 in the completion).", "messages", "context_length_exceeded"),
            {"max_tokens": 3197},
        ),
        (  # as gateways write numbers
            error("This model's maximum context length is 16,384 tokens. However, you requested 20,000 tokens (11,808 "
                  "in the messages, 8,192 in the completion).", None, None),
            {"max_tokens": 4576},
        ),
        (
            error("This endpoint's maximum context length is 4096 tokens. However, you requested about 9092 tokens "
                  "(900 of text input, 8192 in the output).", None, "400"),
            {"max_tokens": 3196},
        ),
        (
            error("'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is "
                  "4096 tokens and your request has 812 input tokens (8192 > 4096 - 812).", None, "400"),
            {"max_tokens": 3284},
        ),
        (
            {"message": "max_tokens=8192cannot be greater than max_model_len=max_total_tokens=4096."},
            {"max_tokens": 2048},
        ),
        (
            error("This model's maximum context length is 9000 tokens. However, you requested 8192 output tokens and "
                  "your prompt contains at least 809 input tokens, for a total of at least 9001 tokens.", None, "400"),
            {"max_tokens": 4500},
        ),
        (
            {"message": "Requested token count exceeds the model's maximum context length of 4096 tokens. You "
                        "requested a total of 9092 tokens: 900 tokens from the input messages and 8192 tokens for the "
                        "completion."},
            {"max_tokens": 3196},
        ),
        # nothing that is sent is named
        (error("The model `m` does not exist", None, "model_not_found"), None),
        (error("Unsupported parameter: 'stop'", "stop", "unsupported_parameter"), None),
        (error("Use max_completion_tokens", None, None), None),
        ({"error": {"message": 5, "param": ["stop"]}}, None),
    ],
)  # fmt: skip
def test_the_words_of_vendors_are_understood(answer: Any, change: Body | None) -> None:
    asked = {**ASKED, "response_format": LIST}
    refusals = Refusals("here")
    mended = refusals.mended(asked, refusals.allowed(asked), json.dumps(answer))
    if change is None:
        assert mended is None and refusals.allowed(asked) == asked
        return
    assert mended is not None
    differing = {name: mended.get(name) for name in {*asked, *mended} if mended.get(name) != asked.get(name)}
    assert set(differing) == set(change)
    for name, value in change.items():
        assert isinstance(differing[name], value) if isinstance(value, type) else differing[name] == value


def of_fastapi(place: str, said: str, sent: Any) -> Body:
    return {"detail": [{"type": "missing", "loc": ["body", place], "msg": said, "input": sent}]}


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        (lambda sent: of_fastapi("metadata", "Field required", sent), None),
        (lambda sent: of_fastapi("seed", "Extra inputs are not permitted", 7), "seed"),
        (lambda sent: {"object": "error", "message": f"1 error: {of_fastapi('metadata', 'missing', sent)}"}, None),
        (lambda sent: {"error": {"message": f"cannot read {json.dumps(sent)}", "param": None}}, None),
        (lambda sent: {"error": {"message": f"cannot read {json.dumps(sent)}", "param": "top_p"}}, "top_p"),
        (lambda sent: {"error": {"message": f"no seed, please: {json.dumps(sent)}"}}, "seed"),
    ],
)
def test_an_error_that_repeats_the_request_names_no_parameter_by_that(
    answer: Callable[[Body], Body], refused: str | None
) -> None:
    """Else one such answer would change how all later cases are judged."""
    text = 'Judge "strictly":\nthe maximum context length is 100 tokens, temperature and top_p are unsupported.'
    asked = {"model": "m", "messages": [{"role": "user", "content": text}], **ASKED}
    refusals = Refusals("here")
    mended = refusals.mended(asked, asked, json.dumps(answer(asked)))
    left = {name: value for name, value in asked.items() if name != refused}
    assert (mended, refusals.allowed(asked)) == (None if refused is None else left, left)


def test_the_status_of_a_request_that_was_refused_says_what_is_wrong_where(endpoint: Any) -> None:
    endpoint.replies = lambda body: {"status": 422, "body": of_fastapi("metadata", "Field required", body)}
    ((_, reply),) = as_finished(OpenAIBackend("m", endpoint.url).complete, [Request(({"content": "Why?"},))], 1)
    assert reply.status == "failed: HTTP 422: body.metadata: Field required"


REFUSABLE = ["max_tokens", "max_completion_tokens", "top_p", "seed", "temperature", "response_format"]


@given(
    st.sets(st.sampled_from(REFUSABLE)),
    st.sampled_from([None, 600, 4096, 16_385]),
    st.sampled_from([None, 100, 4096]),
    st.lists(st.integers(1, 3000), min_size=1, max_size=4),
    st.sampled_from([50, 1000, 8192]),
    st.permutations([*REFUSABLE, "window", "longest"]),
)
def test_what_is_sent_in_the_end_is_all_that_is_taken(
    refused: set[str], window: int | None, longest: int | None, prompts: list[int], wanted: int, order: list[str]
) -> None:
    """Whatever a server refuses and in whichever order it looks: the first request that it takes has learnt it all."""

    def refusal(body: Body, prompt: int) -> Body | None:
        name = next((n for n in ("max_tokens", "max_completion_tokens") if n in body), None)
        for rule in order:
            if rule in refused and rule in body:
                return error(f"Unsupported parameter: '{rule}'", rule, "unsupported_parameter")
            if rule == "window" and window and name and prompt + body[name] > window:
                told = f"({prompt} in the messages, {body[name]} in the completion)"
                return error(f"maximum context length is {window} tokens. However, you requested {told}", None, None)
            if rule == "longest" and longest and name and body[name] > longest:
                return error(f"{name} is too large. This model supports at most {longest} tokens", name, None)
        return None

    refusals, asked = Refusals("here"), {**ASKED, "max_tokens": wanted, "response_format": LIST}
    most = MOST_MENDS
    for prompt in prompts:
        body: Body | None = refusals.allowed(asked)
        refused_so_often = 0
        try:
            while body is not None and (told := refusal(body, prompt)) is not None:
                refused_so_often += 1
                assert refused_so_often <= most
                body = refusals.mended(asked, body, json.dumps(told))
        except ValueError:
            body = None
        if body is None:
            assert window and prompt + min(wanted, window // 4) > window
            continue
        most = 1  # by the window: how many tokens a prompt has is known when it was refused
        named = {"max_tokens", "max_completion_tokens"} - refused
        limits = [body[name] for name in named if name in body]
        for name in set(REFUSABLE) - {"max_tokens", "max_completion_tokens", "response_format"}:
            assert body.get(name) == (None if name in refused else asked[name])
        assert ("response_format" in body) == ("response_format" not in refused)
        assert bool(limits) == bool(named) and ("max_tokens" in body) == ("max_tokens" not in refused)
        if limits:
            possible = min(wanted, longest or wanted)
            assert min(possible, (window or 4 * wanted) // 4) <= limits[0] <= possible
            assert window or limits[0] == possible


@pytest.mark.parametrize("status", [400, 422, 404])
def test_a_server_that_refuses_without_end_is_left(endpoint: Any, capsys: Any, status: int) -> None:
    """And no other status than these two changes what is asked."""

    def refuse(body: Body) -> Any:
        told = f"max_tokens: at most {limit(body) - 1}; this model's maximum context length is {limit(body)} tokens"
        return {"status": status, "body": error(told if limit(body) % 2 else told[:40], None, None)}

    endpoint.replies = refuse
    requests = [Request(({"role": "user", "content": str(n)},)) for n in range(4)]
    for _, reply in as_finished(OpenAIBackend("m", endpoint.url).complete, requests, 4):
        assert reply.text is None and reply.status.startswith(f"failed: HTTP {status}: max_tokens: at most")
        assert reply.calls == 1 if status == 404 else 1 < reply.calls <= MOST_MENDS + 1
    assert capsys.readouterr().err.count("note: ") in (range(1, 9) if status != 404 else [0])


texts = st.text(st.sampled_from('ab"\\[]{}, :\n'), max_size=8)
claims = st.builds(AtomicClaim, texts, st.booleans(), st.lists(texts, max_size=2).map(tuple), texts)
candidates = st.lists(st.tuples(texts, st.lists(claims, min_size=1, max_size=2)), min_size=1, max_size=3)
# the keywords that OpenAI documents for `strict` schemas, and Azure with it; lengths are newer and not everywhere
KNOWN = {"type", "properties", "required", "additionalProperties", "items", "enum"}


def object_schema(n_candidates: int, variant: str) -> Any:
    asked = {"name": "reply", "schema": response_schema(n_candidates, variant), "strict": True}
    wrapped = in_an_object({"type": "json_schema", "json_schema": asked})
    assert wrapped is not None and in_an_object(wrapped) is None
    schema = wrapped["json_schema"].pop("schema")
    assert wrapped == {"type": "json_schema", "json_schema": {"name": "reply", "strict": True}}
    return schema


def schemas(schema: Any) -> Iterator[Any]:
    yield schema
    for inner in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
        yield from schemas(inner)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("n_candidates", [1, 2, 26])
def test_it_keeps_to_what_vendors_know(variant: str, n_candidates: int) -> None:
    schema = object_schema(n_candidates, variant)
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    for each in schemas(schema):
        assert set(each) <= KNOWN
        if each["type"] == "object":
            assert each["required"] == list(each["properties"]) and each["additionalProperties"] is False
        if each["type"] == "array":
            assert isinstance(each["items"], dict)
    assert schema["properties"]["reply"]["items"]["properties"]["id"]["enum"] == list(LETTERS[:n_candidates])


@given(candidates, st.sampled_from(list(VARIANTS)), st.sampled_from([None, 1]))
def test_every_list_of_the_exact_schema_fits_and_comes_out_as_it_went_in(
    drawn: Any, variant: str, indent: int | None
) -> None:
    trajectory = tuple(
        CandidateEvaluation(letter, tuple(claims), answer)
        for letter, (answer, claims) in zip(LETTERS, drawn, strict=False)
    )
    items = json.loads(as_reply(trajectory, variant))
    assert Draft202012Validator(response_schema(len(items), variant)).is_valid(items)
    assert Draft202012Validator(object_schema(len(items), variant)).is_valid({"reply": items})
    bare = json.dumps(items, indent=indent)
    assert json.loads(unwrapped(json.dumps({"reply": items}, indent=indent))) == items
    assert unwrapped(f' {{"reply" :{bare}}}\n') == bare
    parse_strict(unwrapped(f'{{"reply": {bare}}}'), len(items), variant)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[1]",
        '{"reply": "[1]"}',
        '{"reply": [1], "more": [2]}',
        '{"reply": [1], "reply": [2]}',
        '{"answer": [1]}',
        '{"reply": [1]} and more',
        '{"reply": [1',
        "[" * 100_000,
    ],
)
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert unwrapped(text) == text
