"""The text of a chat completion, or the reason why there is none."""

import json
import re
from collections.abc import Mapping
from typing import Any

from rag_zeval.replies.reading import quoted
from rag_zeval.text import one_line

# Values of finish_reason, in lower case without punctuation. They are those of OpenAI, Mistral, Anthropic, Gemini,
# Bedrock, watsonx, DeepSeek and vLLM.
CUT_OFF = frozenset(
    "length maxlength modellength maxtokens maxoutputtokens tokenlimit modelcontextwindowexceeded timelimit abort "
    "aborted cancelled error networkerror insufficientsystemresource".split()
)
FILTERED = frozenset("safety recitation prohibitedcontent blocklist spii guardrailintervened sensitive refusal".split())
TEXTS = ("text", "output_text")  # types of parts that hold text
THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking")  # fields of a message


def read_completion(completion: Any) -> tuple[str, str]:
    """Return the text that the model wrote as its answer, and its status: "ok" or "truncated".

    Raises ValueError if there is no such text; the message says what the completion has instead.

    >>> read_completion({"choices": [{"message": {"content": "Yes."}, "finish_reason": "length"}]})
    ('Yes.', 'truncated')
    """
    choice = _choice(completion)
    message, reason = choice.get("message") or {}, one_line(str(choice.get("finish_reason")))
    if refusal := _refusal(message):
        raise ValueError(f"the model refused: {refusal}")
    if _is_filtered(choice):
        raise ValueError(f"a filter of the endpoint stopped the reply (finish_reason {reason})")
    text, cut = _text(message.get("content")), _plain(reason) in CUT_OFF
    if not text.strip():
        raise ValueError(_why_empty(message, reason, cut))
    return text, "truncated" if cut else "ok"


def _choice(completion: Any) -> dict[str, Any]:
    """Return the choice with index 0, else the first: we request only one. Raises ValueError if none has a message.

    A choice that a filter stopped need not have one: Gemini leaves it out.
    """
    try:
        choices = [
            choice
            for choice in completion["choices"]
            if isinstance(choice.get("message"), dict) or (choice.get("message") is None and _is_filtered(choice))
        ]
        return min(choices, key=lambda choice: choice.get("index") != 0)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        found = quoted(json.dumps(completion, ensure_ascii=False))
        raise ValueError(f"the endpoint's answer is not a chat completion: {found}") from error


def _is_filtered(choice: Mapping[str, Any]) -> bool:
    end = _plain(str(choice.get("finish_reason")))
    return end in FILTERED or end.startswith("contentfilter")  # Gemini adds its reason: "content_filter: RECITATION"


def _refusal(message: Mapping[str, Any]) -> Any:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    refusals = [part.get("refusal") for part in parts if isinstance(part, dict)]
    return next(filter(None, [message.get("refusal"), *refusals]), None)


def _text(content: Any) -> str:
    """Return the text of a message's content ("" if empty): a string, or a list of text parts. Thoughts are left out.

    Raises ValueError for parts of any other kind: they may not be the model's answer.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise ValueError("the content is not a text")
    return "".join(_part_text(part) for part in content if not _is_thought(part))


def _part_text(part: Mapping[str, Any]) -> str:
    kind, text = part.get("type", "text"), part.get("text")
    if kind not in TEXTS:
        raise ValueError(f"the content has a part of type {kind}, which is not a text")
    text = text.get("value") if isinstance(text, dict) else text
    if not isinstance(text, str):
        raise ValueError(f"the content has a part of type {kind} without a text")
    return text


def _is_thought(part: Mapping[str, Any]) -> bool:
    return part.get("type") in THOUGHTS or bool(part.get("thought"))


def _why_empty(message: Mapping[str, Any], reason: str, cut: bool) -> str:
    """Return the likely reason why a message has no text."""
    thoughts = next((name for name in THOUGHT_FIELDS if isinstance(message.get(name), str) and message[name]), None)
    ended = "" if reason in ("None", "stop") else f" (finish_reason {reason})"
    if cut:
        stands = f"; the text so far is in {thoughts}: {quoted(message[thoughts])}" if thoughts else ""
        return f"the reply was cut off before its text began{ended}{stands}"
    if message.get("tool_calls") or message.get("function_call"):
        return f"the model called a tool{_tool(message)} and wrote no text"
    if thoughts:
        return f"the content is empty; the text is in {thoughts}: {quoted(message[thoughts])}"
    if isinstance(message.get("content"), list) and any(map(_is_thought, message["content"])):
        return "the content holds only thoughts"
    return f"the reply is empty{ended}"


def _tool(message: Mapping[str, Any]) -> str:
    """Return the name of the called tool in brackets; "" if unknown."""
    calls = message.get("tool_calls")
    call = calls[0] if isinstance(calls, list) else message.get("function_call")
    function = call.get("function", call) if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return f" ({name})" if isinstance(name, str) else ""


def _plain(reason: str) -> str:
    """Normalise a finish reason: `FinishReason.MAX_TOKENS`, `max-tokens` and `maxTokens` all become "maxtokens"."""
    return re.sub("[^a-z]", "", reason.rpartition(".")[2].lower())
