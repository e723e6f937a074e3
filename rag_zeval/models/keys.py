"""API keys, read from the environment alone, and hidden as soon as they are known."""

from __future__ import annotations

import os

from rag_zeval.errors import InputError
from rag_zeval.secrets import hide, is_variable


def read_key(variable: str) -> str | None:
    """The key in an environment variable, without white space around it (a CRLF `.env` leaves some); None if not set.

    Raises InputError, which names the variable and never the value, for what no HTTP header can carry.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InputError(
            f"environment variable {variable} does not hold an API key: an HTTP header cannot carry its value"
        )
    hide(key)
    return key or None


def needed_key(variable: str, what: str) -> str:
    """As `read_key`. Raises InputError as well if the variable is not set; `what` says what it must hold.

    Where a key may have been given in place of a name, the message does not show it.
    """
    key = read_key(variable)
    if key is not None:
        return key
    if is_variable(variable):
        raise InputError(f"environment variable {variable} is not set: it must hold {what}")
    raise InputError(
        f"expected the NAME of an environment variable that is set (such as OPENAI_API_KEY) and holds {what}, not a key"
    )
