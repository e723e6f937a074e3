"""API keys and a gateway's headers: read from environment variables only, and hidden from all output from then on."""

import os
import re

from rag_zeval.errors import InputError
from rag_zeval.secrets import RUN, SEPARATED, hide, hide_secret_header, is_variable

HEADERS_ENV = "OPENAI_CUSTOM_HEADERS"  # recent versions of the openai client read it, too
_HEADER = re.compile(r"([\w!#$%&'*+.^`|~-]+)\s*:\s*([!-~](?:[ -~]*[!-~])?)", re.ASCII)


def read_key(variable: str) -> str | None:
    """Return the key in an environment variable, without surrounding white space; None if it is not set.

    A `.env` file with CRLF line ends leaves such white space. A stand-in for a key, such as "not-needed", is not
    hidden, because texts to be judged may contain it. Raises InputError for a value that no HTTP header can carry. The
    message names the variable, never the value.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InputError(
            f"environment variable {variable} does not hold an API key: an HTTP header cannot carry its value"
        )
    letters = SEPARATED.sub("", key)
    if not letters.isalpha() or len(letters) >= RUN:
        hide(key)
    return key or None


def needed_key(variable: str, what: str) -> str:
    """Return the key as `read_key` does, but raise InputError if the variable is not set. what: what it should hold.

    If the name could be a key that was given by mistake, the message does not show it.
    """
    key = read_key(variable)
    if key is not None:
        return key
    if is_variable(variable):
        raise InputError(f"environment variable {variable} is not set: it must hold {what}")
    raise InputError(
        f"expected the NAME of an environment variable that is set (such as OPENAI_API_KEY) and holds {what}, not a key"
    )


def gateway_headers() -> dict[str, str]:
    """Return the headers that HEADERS_ENV adds to every request: a line for each, as `NAME: value`.

    A gateway in front of a judge may ask for them. Values that look like secrets are hidden. Raises InputError for a
    line that is no header; the message does not show it.
    """
    headers = {}
    for number, line in enumerate(os.environ.get(HEADERS_ENV, "").splitlines(), 1):
        if line.strip():
            header = _HEADER.fullmatch(line.strip())
            if header is None:
                raise InputError(f"environment variable {HEADERS_ENV}, line {number}: expected NAME: value")
            name, value = header.groups()
            hide_secret_header(name, value)
            headers["Authorization" if name.lower() == "authorization" else name] = value  # instead of the key's
    return headers
