"""Learns from an endpoint's errors which parameters of a chat request it rejects, and how many tokens it allows."""

import json
import re
import sys
from functools import reduce
from typing import Any

from rag_zeval.budget import TOKEN_LIMITS
from rag_zeval.models.endpoint import Body
from rag_zeval.models.http_errors import error_fields
from rag_zeval.models.language_model import REPLY_SHARE
from rag_zeval.replies.loose_json import unique_keys
from rag_zeval.text import LINE_READ

LIST = "reply"  # the only field of the object that wraps a list
# How an error names the parameter. If it names two, the first one here is left out, as Claude takes only one of
# temperature and top_p.
NAMED = {
    "response_format": re.compile(r"(?i)response[ _](?:format|schema)|json[ _]schema"),  # Gemini: response_schema
    **{name: re.compile(rf"\b{name}\b") for name in (*TOKEN_LIMITS, "top_p", "seed", "temperature")},
}
_COUNT = r"(\d{1,3}(?:,\d{3}){1,2}(?!\d)|\d{1,9})"  # such as 8192 or 8,192
# Messages of OpenAI, OpenRouter, vLLM, SGLang, Hugging Face's TGI, Together and Anthropic (window, prompt), and of
# OpenAI, Groq, DeepSeek, Anthropic, Cohere, Bedrock and Fireworks (longest reply).
WINDOW = re.compile(
    rf"context length (?:is |of |\()(?:only )?{_COUNT}|max_model_len=\D{{0,20}}{_COUNT}"
    rf"|tokens \+ `max_new_tokens` must be <= {_COUNT}|exceed context limit: \d{{1,9}} \+ \d{{1,9}} > {_COUNT}"
)
PROMPT = re.compile(
    rf"{_COUNT} (?:in the messages|in your prompt|of text input|input tokens|tokens from the input|`inputs` tokens)"
    rf"|resulted in {_COUNT} tokens|input \({_COUNT} tokens|exceed context limit: {_COUNT} \+"
)
LONGEST = re.compile(
    rf"(?:at most|<=|less than or equal to|\[1,|tokens(?:: \d{{1,9}})? >|exceeds? the model limit of) ?`?{_COUNT}"
)
_PLAIN = re.compile(r"[\w ,.]{20,60}", re.ASCII)  # words of a prompt that are spelled alike in every encoding
REPLY_LENGTH = re.compile(r"(?i)max_new_tokens|\bmax(?:imum)? tokens\b")  # how others call a limit of tokens


class Refusals:
    """What a model at an endpoint has rejected so far. Each rejection is noted once on stderr; later requests avoid it.

    A rejected parameter is sent in another form if it has one: max_tokens as max_completion_tokens, and the schema of a
    list wrapped in an object. Otherwise it is left out, so the endpoint uses its default. If prompt and reply exceed
    the window, a shorter reply is requested. A prompt is never cut.

        refusals = Refusals("https://api.openai.com/v1: o3")
        body = refusals.allowed(asked)
        while body is not None and (refusal := send(body)):
            body = refusals.mended(asked, body, refusal)
    """

    def __init__(self, where: str):
        self._where = where
        self._refused: list[str] = []  # names, in order; one with two forms may be listed twice
        self._window: int | None = None
        self._longest: int | None = None  # most tokens of a reply

    def allowed(self, asked: Body) -> Body:
        """Return the body of a chat request, changed to what the endpoint is known to accept.

        The length of the prompt is unknown here, so a reply gets at most half of the window, once that is known.
        """
        half = None if self._window is None else max(1, self._window // 2)
        tokens = min(limit for limit in (asked["max_tokens"], half, self._longest) if limit is not None)
        return self._with_limit(asked, tokens)

    def mended(self, asked: Body, sent: Body, answer: str) -> Body | None:
        """Return the body to send instead of `sent`, which was rejected with this answer; None if no other may work.

        Every change is new or lowers a limit, so there are only a few in a row. Raises ValueError if the prompt
        leaves too little of the window.
        """
        message, parameter = error_fields(answer)
        said = f"{_before_echo(message, sent)[:LINE_READ]} {parameter}"
        limit = next((sent[name] for name in TOKEN_LIMITS if name in sent), None)
        if limit is not None and (window := _number(WINDOW, said)) is not None:
            lower = self._lower_limit(asked["max_tokens"], limit, window, _number(PROMPT, said))
            return None if lower is None else self._with_limit(asked, lower)
        longest = _number(LONGEST, said)
        named = [name for name in NAMED if name in sent and NAMED[name].search(said)]
        if not named and longest is not None and REPLY_LENGTH.search(said):
            named = [name for name in TOKEN_LIMITS if name in sent and 1 <= longest < sent[name]]
        if not named:
            return None
        name = parameter if parameter in named else named[0]
        if name in TOKEN_LIMITS and longest is not None and 1 <= longest < sent[name]:
            if self._longest is None:
                self._tell(f"replies are limited to {longest:,} tokens, but {asked['max_tokens']:,} were requested")
            self._longest = min(longest, self._longest or longest)
            limit = longest
        elif self._is_sent_yet(name, asked, sent):
            self._refused.append(name)
            self._tell(_consequence(name, self.allowed(asked)))
        return self._with_limit(asked, limit or asked["max_tokens"])

    def _is_sent_yet(self, name: str, asked: Body, sent: Body) -> bool:
        """Whether the parameter would be sent again unchanged. A concurrent request may have learned it already."""
        allowed = self.allowed(asked)
        return name in allowed and (name in TOKEN_LIMITS or allowed[name] == sent[name])

    def _lower_limit(self, wanted: int, limit: int, window: int, prompt: int | None) -> int | None:
        """Return a lower limit for the reply, after `limit` tokens were too many; None if there is none to try."""
        if self._window is None:
            self._tell(
                f"the window is {window:,} tokens: a reply gets what the prompt leaves of it, at most {wanted:,}"
            )
        self._window = min(window, self._window or window)
        least = max(1, min(wanted, window // REPLY_SHARE))
        if prompt is None or prompt + limit == window + 1:  # vLLM stops counting the prompt there
            room = window // 2
        else:
            room = window - prompt
            if room < least:
                raise ValueError(
                    f"prompt needs {prompt} tokens, the model's window is {window} (reply at least {least})"
                )
        return next((tokens for tokens in (room, least) if tokens < limit), None)

    def _with_limit(self, asked: Body, tokens: int) -> Body:
        body = {**asked, "max_tokens": tokens}
        for name in self._refused:
            value = body.pop(name, None)
            if value is not None and (other := _other_form(name, value)) is not None:
                body.update(other)
        return body

    def _tell(self, consequence: str) -> None:
        print(f"note: {self._where}: {consequence}", file=sys.stderr)


def _before_echo(message: str, sent: Body) -> str:
    """Return an error's message up to where it repeats the prompt, if it does.

    Some servers repeat the whole request in an error. It names every parameter, and its texts are no server's words.
    """
    quoted = (_PLAIN.search(one["content"]) for one in sent.get("messages", ()))
    return min((message.partition(words[0])[0] for words in quoted if words), key=len, default=message)


def _other_form(name: str, value: Any) -> Body | None:
    if name == "max_tokens":
        return {"max_completion_tokens": value}
    if name == "response_format" and (wrapped := in_an_object(value)) is not None:
        return {"response_format": wrapped}
    return None


def _consequence(name: str, body: Body) -> str:
    if name == "max_tokens":
        return "the endpoint rejects max_tokens; sending max_completion_tokens instead"
    if name in body:
        return "the endpoint rejects the schema of a list; asking for an object that holds the list"
    return f"the endpoint rejects this {name}; leaving it out, so that the endpoint decides"


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return None if found is None else int(next(filter(None, found.groups())).replace(",", ""))


def in_an_object(response_format: Body) -> Body | None:
    """Simplify `response_format` for endpoints that support less of JSON schema, such as OpenAI: make the list a field.

    One schema describes all items, and their number is left open. The parser checks both. None if the root is not a
    list, because there is no simpler form then.
    """
    schema = response_format["json_schema"]["schema"]
    if schema["type"] != "array":
        return None
    around = {"type": "object", "properties": {LIST: _plain(schema)}, "required": [LIST], "additionalProperties": False}
    return {**response_format, "json_schema": {**response_format["json_schema"], "schema": around}}


def unwrapped(text: str) -> str:
    """Return the text of the list in a reply `{"reply": [...]}`, and any other text unchanged."""
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict) or list(value) != [LIST] or not isinstance(value[LIST], list):
        return text
    return text[text.index("[") : text.rindex("]") + 1]


def _plain(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    if "prefixItems" in schema:
        return {"type": "array", "items": _plain(reduce(_either, schema["prefixItems"]))}
    return {name: _plain(value) for name, value in schema.items() if name not in ("minItems", "maxItems")}


def _either(first: Any, second: Any) -> Any:
    """Merge two schemas that differ only in their enum values."""
    if not isinstance(first, dict):
        return first
    return {name: one + second[name] if name == "enum" else _either(one, second[name]) for name, one in first.items()}
