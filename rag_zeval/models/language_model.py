"""What the evaluator and every scorer ask of a language model, and how one is named."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rag_zeval.budget import Account
from rag_zeval.errors import InputError
from rag_zeval.files import check_fields, locate, read_json

Messages = Sequence[Mapping[str, str]]

# No user, password, query or fragment: specs are written into run files, and secrets must not be.
_ENDPOINT = re.compile(
    r"openai:((?:(?!://).)+)@(https?://(?:[\w.-]+|\[[\da-fA-F:]+\])(?::\d{1,5})?(?:/[\w./~:%+-]*)?)", re.ASCII
)
# No "@", "/" or port: an endpoint whose http:// was forgotten is no model of OpenAI's.
_OPENAI_MODEL = re.compile(r"openai:(?!.*:\d+$)([\w.:-]+)", re.ASCII)
OPENAI_URL = "https://api.openai.com/v1"
LINE_READ = 10_000  # characters of a foreign text that are looked at
REPLY_SHARE = 4  # at least 1/4 of the window stays free for the reply, where max_tokens asks for more than that
SPECS = "transformers:FOLDER, vllm:FOLDER, openai:MODEL@http://host:port/v1 or, for OpenAI itself, openai:MODEL"


@dataclass(frozen=True)
class Sampling:
    """How to sample; the defaults are the paper's for inference. `max_tokens` bounds the reply, not the prompt."""

    temperature: float = 0.1
    top_p: float = 0.9
    max_tokens: int = 8192
    seed: int = 0


@dataclass(frozen=True)
class Request:
    """One question to the model. `trial` numbers repeated samples of the same question.

    `response_schema` (JSON schema) constrains the reply where the model `can_constrain`; transformers ignores it.
    """

    messages: tuple[dict[str, str], ...]
    sampling: Sampling = Sampling()
    trial: int = 0
    response_schema: dict[str, Any] | None = None

    @property
    def seed(self) -> int:
        """Seed of this request alone, in [0, 2^31): the same in any batch, another for each trial and prompt."""
        content = json.dumps([self.sampling.seed, self.trial, self.messages])
        return int.from_bytes(hashlib.sha256(content.encode()).digest()[:4], "big") >> 1


@dataclass(frozen=True)
class Reply:
    """What came back. `status` is "ok", "truncated" (text cut at the token limit) or "failed: reason" (text None).

    calls: attempts made, retries among them (0 for a cached reply); tokens as the model counts them, None if unknown.
    seconds: from asking to the reply, retries included; in a batch, the batch's time shared equally.
    paid_tokens: (prompt, completion) to be paid for, over all calls, also where no text came; None: those above.
    bounded: calls that did not tell their tokens, and are counted there with as many as there can have been.
    """

    text: str | None
    status: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    calls: int = 0
    retries: int = 0
    seconds: float = 0.0
    cached: bool = False
    paid_tokens: tuple[int, int] | None = None
    bounded: int = 0


class Model(Protocol):
    """A model that answers, be it with text or with vectors.

    Many questions are awaited side by side, by `asyncio.gather` or, in plain code, through `as_finished`.
    """

    @property
    def name(self) -> str:
        """For people: the model as it was named."""

    @property
    def identity(self) -> str:
        """For cache keys: endpoint and model, or a hash of the weights."""

    @property
    def at_once(self) -> int:
        """How many questions it is well to have under way."""


class Backend(Model, Protocol):
    """A language model. It never raises for one bad request: that gets a Reply with status "failed: …"."""

    @property
    def max_context(self) -> int | None:
        """Tokens that prompt and reply may have together; None if unknown."""

    @property
    def card(self) -> Mapping[str, str]:
        """`rag_zeval.json` of the checkpoint folder: "world" and prompt "variant"; empty where there is none."""

    @property
    def batched(self) -> bool:
        """Whether requests are computed together, so that a reply depends, by rounding, on what is asked with it."""

    def count_tokens(self, messages: Messages) -> int | None:
        """Tokens of the prompt made of these messages; None if unknown."""

    async def complete(self, request: Request) -> Reply:
        """The reply to one request. Raises InputError when the model cannot be reached at all."""


def known_total(counts: Sequence[int | None]) -> int | None:
    """The sum of the counts that are known, 0 if there are none at all; None if there are and none is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known or not counts else None


def check_spec(spec: str) -> tuple[str, str] | None:
    """Model and URL that an endpoint's spec names; None for a folder's, whether or not the folder is there.

    Without a URL it is OpenAI's own. Raises InputError for a spec of no such form, or with a secret in its URL; the
    message shows nothing of it.
    """
    if not spec.startswith("openai:") and "://" not in spec:
        return None
    if (openai_model := _OPENAI_MODEL.fullmatch(spec)) is not None:
        return openai_model[1], OPENAI_URL
    match = _ENDPOINT.fullmatch(spec)
    if match is None:
        raise InputError("model 'openai:…': expected openai:MODEL@http://host:port/v1, without user, password or query")
    return match[1], match[2]


def can_constrain(spec: str) -> bool:
    """Whether replies of the model that a spec names can be held to a JSON schema: endpoints and vLLM do that."""
    return check_spec(spec) is not None or spec.startswith("vllm:")


def open_backend(
    spec: str,
    *,
    concurrency: int = 8,
    timeout: float = 600.0,
    connect_timeout: float = 10.0,
    max_body_mib: float = 16.0,
    api_key_env: str | None = None,
    account: Account | None = None,
    processes: int = 1,
) -> Backend:
    """The backend a spec names: `transformers:FOLDER` (or just the folder), `openai:MODEL@URL`, `vllm:FOLDER`.

    Without its URL, `openai:MODEL` is at OpenAI. concurrency: open requests at once; timeout: seconds for one
    request with its retries; connect_timeout: seconds for a connection, and for a server's first sign of life;
    max_body_mib: MiB of an answer; api_key_env: NAME of the environment variable with the key (default
    OPENAI_API_KEY); account: who pays for the calls, where a run has a limit. These six matter to an endpoint only;
    processes, each with the model, to a folder that transformers runs (`TransformersBackend`).
    Raises InputError for a spec of no such form, a folder without a model, a limit or key that cannot be used.
    """
    if (endpoint := check_spec(spec)) is not None:
        from rag_zeval.models.openai_api import OpenAIBackend

        return OpenAIBackend(
            *endpoint,
            concurrency=concurrency,
            timeout=timeout,
            connect_timeout=connect_timeout,
            max_body_mib=max_body_mib,
            api_key_env=api_key_env,
            account=account,
        )
    if spec.startswith("vllm:"):
        from rag_zeval.models.vllm_local import VLLMBackend

        return VLLMBackend(spec.removeprefix("vllm:"))
    folder = spec.removeprefix("transformers:")
    if not Path(folder).is_dir():
        raise InputError(f"model '{spec}': no such folder; name a model as {SPECS}")
    from rag_zeval.models.transformers_local import TransformersBackend

    return TransformersBackend(folder, processes)


def read_card(folder: str | Path) -> dict[str, str]:
    """`rag_zeval.json` of a checkpoint folder, {} if there is none. Raises InputError if it is no object of strings."""
    path = Path(folder) / "rag_zeval.json"
    if not path.is_file():
        return {}
    card: dict[str, str] = read_json(path)
    with locate(path):
        check_fields(card, dict.fromkeys(card, str))
    return card


def chat_ids(tokenizer: Any, messages: Messages) -> list[int]:
    """Token ids of the prompt: the messages in the tokenizer's chat template, ready for the reply."""
    ids: list[int] = tokenizer.apply_chat_template(
        [dict(message) for message in messages], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    return ids


def one_line(text: str) -> str:
    """Foreign text as a status may quote it and a terminal may get it: on one line, at most 300 characters.

    A space stands for all that does not print: controls, marks of writing direction, halves of characters.
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text[:LINE_READ]).split())[:300]
