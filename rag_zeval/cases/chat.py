"""Chat messages: who speaks in them, and under which name they hold their text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rag_zeval.cases.paths import at_path
from rag_zeval.cases.printed import unfolded
from rag_zeval.files import Row

SPEAKERS = {  # roles
    "question": {"user", "human", "customer", "client"},
    "answer": {"assistant", "ai", "agent", "bot", "chatbot", "gpt", "model"},
    "contexts": {"system", "tool"},
}
SPEAKER = re.compile(rf"^({'|'.join(SPEAKERS['question'] | SPEAKERS['answer'])}):\s*\S", re.IGNORECASE | re.MULTILINE)
TYPES = {"user", "human", "assistant", "ai", "system", "tool", "developer", "function"}  # roles that may be a type
# Under which names a message holds its role and its text: OpenAI; LangChain and ragas; MTRAG; ShareGPT
MESSAGES = (("role", "content"), ("type", "content"), ("speaker", "text"), ("from", "value"))


def spoken_by(path: str, rows: Sequence[Row]) -> str | None:
    """Return the role of the only chat message at a path, None if no message is there, "" if rows differ."""
    roles = set(map(role_of, messages_at(path, rows)))
    return roles.pop() if len(roles) == 1 else ""


def is_dialogue(text: str) -> bool:
    """Whether a text is a dialogue that a user begins and a system ends."""
    roles = [role.lower() for role in SPEAKER.findall(text)]
    return bool(roles) and roles[0] in SPEAKERS["question"] and roles[-1] in SPEAKERS["answer"]


def messages_at(path: str, rows: Sequence[Row]) -> Iterator[Any]:
    """Yield what each row has at a path, or the only item of a list there."""
    for one in (unfolded(at_path(row, path)) for row in rows):
        yield one[0] if isinstance(one, list) and len(one) == 1 else one


def role_of(message: Any) -> str | None:
    """Return the role of a chat message, or None if the value is none."""
    names = _names(message)
    return None if names is None else str(message[names[0]])


def text_name(message: Any) -> str:
    """Return the name under which a chat message holds its text."""
    names = _names(message)
    return "content" if names is None else names[1]


def _names(message: Any) -> tuple[str, str] | None:
    """Return under which names a chat message holds its role and its text; None if the value is no message."""
    for role, text in MESSAGES if isinstance(message, Mapping) else ():
        said = message.get(role)
        if isinstance(said, str) and text in message and (role == "role" or said in TYPES | SPEAKERS["answer"]):
            return role, text
    return None
