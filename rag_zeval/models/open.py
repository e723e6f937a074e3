"""Opens the model that a spec names, such as `openai:MODEL@URL`. No backend imports this module."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_zeval.budget import Account
from rag_zeval.errors import InputError, needed
from rag_zeval.models.folder import STRUCTURED, read_card
from rag_zeval.models.language_model import Backend
from rag_zeval.models.precision import split_dtype
from rag_zeval.secrets import looks_like_keys

if TYPE_CHECKING:
    from rag_zeval.models.embeddings import Embedder

# No user, password, query or fragment: specs are written into run files, and secrets must not be.
_ENDPOINT = re.compile(
    r"openai:((?:(?!://).)+)@(https?://(?:[\w.-]+|\[[\da-fA-F:]+\])(?::\d{1,5})?(?:/[\w./~:%+-]*)?)", re.ASCII
)
# No "@", "/" or port: a spec with one of those is more likely an endpoint whose http:// was forgotten.
_OPENAI_MODEL = re.compile(r"openai:(?!.*:\d+$)([\w.:-]+)", re.ASCII)
_ADDRESS = re.compile(r"//(?:\[(?P<v6>.+)\]|(?P<v4>\d+(?:\.\d+){3})(?![\w.-]))", re.ASCII)  # instead of a host's name
_ADDED = re.compile(r"(/chat/completions|/embeddings)/*\Z")  # paths that people copy with the base URL
_VLLM = re.compile(r"vllm:(.+?)(?:@([1-9]\d?))?", re.ASCII)
OPENAI_URL = "https://api.openai.com/v1"
SPECS = "transformers:FOLDER, vllm:FOLDER, openai:MODEL@http://host:port/v1 or, for OpenAI itself, openai:MODEL"
# Fields of a request that options set, and fields that would change how an answer has to be read.
OWN_FIELDS = (
    *("model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "response_format"),
    *("stream", "n"),
)
EMBEDDER_SPECS = "FOLDER or openai:MODEL@http://host:port/v1"


def check_spec(spec: str) -> tuple[str, str] | None:
    """Return the model and URL of an endpoint's spec; None for the spec of a folder, which need not exist.

    The default URL is OpenAI's. Raises InputError for a malformed spec, and for a URL that holds a secret or is none of
    a whole server; the message repeats neither.

    >>> check_spec("openai:judge@http://127.0.0.1:8000/v1")
    ('judge', 'http://127.0.0.1:8000/v1')
    """
    if not spec.startswith("openai:") and "://" not in spec:
        return None
    if (openai_model := _OPENAI_MODEL.fullmatch(spec)) is not None:
        return openai_model[1], OPENAI_URL
    match = _ENDPOINT.fullmatch(spec)
    if match is None:
        raise InputError("model 'openai:…': expected openai:MODEL@http://host:port/v1, without user, password or query")
    if (address := _ADDRESS.search(match[2])) is not None:
        try:
            ipaddress.ip_address(address["v6"] or address["v4"])
        except ValueError as error:
            raise InputError(f"model 'openai:…': {error}") from error
    if (added := _ADDED.search(match[2])) is not None:
        raise InputError(f"model 'openai:…': leave {added[1]} out of the URL; each request adds it")
    return match[1], match[2]


def folder_of(spec: str) -> str | None:
    """Return the folder that a spec names, which need not exist; None for an endpoint.

    Raises InputError as `check_spec` does.

    >>> folder_of("transformers:models/judge@bfloat16")
    'models/judge'
    >>> folder_of("vllm:models/judge@4")
    'models/judge'
    """
    if check_spec(spec) is not None:
        return None
    if (on_gpus := _VLLM.fullmatch(spec)) is not None:
        return on_gpus[1]
    return split_dtype(spec.removeprefix("transformers:"))[0]


def check_model(spec: str) -> None:
    """Raise InputError for a malformed spec, and for one that names a folder which does not exist."""
    folder = folder_of(spec)
    if folder is not None and not (folder and Path(folder).is_dir()):
        raise InputError(f"model '{spec}': no such folder; name a model as {SPECS}")


def check_embedder(spec: str) -> None:
    """Raise InputError for a malformed spec, and for one that names a folder which does not exist."""
    if check_spec(spec) is None:
        folder = split_dtype(spec)[0]
        if not folder or not Path(folder).is_dir():
            raise InputError(f"embeddings '{spec}': no such folder; name a model as {EMBEDDER_SPECS}")


def check_structured(spec: str, structured: bool | None) -> None:
    """Raise InputError if the package is missing that keeps the replies of this model within a JSON schema.

    structured: whether the user asks for it; None if the model's card decides.
    """
    folder = folder_of(spec)
    if folder is None or spec.startswith("vllm:"):
        return
    if structured or (structured is None and read_card(folder).get(STRUCTURED)):
        with needed("llguidance", f"{spec}: replies in the JSON format (--no-structured does without)"):
            import llguidance  # noqa: F401


def check_extra_body(spec: str, extra_body: Mapping[str, Any] | None, key: str = "extra_body") -> None:
    """Raise InputError if requests to this model can have no extra fields, or not these, such as an API key.

    key: what errors call the fields.

    >>> check_extra_body("openai:o3", {"reasoning_effort": "low"})
    """
    if not extra_body:
        return
    if check_spec(spec) is None:
        raise InputError(f"{key}: {spec} gets no requests; only endpoints can have extra fields")
    for name in OWN_FIELDS:
        if name in extra_body:
            raise InputError(f"{key}: leave out '{name}'; RAG-Zeval sets it itself")
    try:
        text = json.dumps(extra_body, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{key}: it cannot be sent as JSON: {error}") from error
    if any(looks_like_keys(text)):
        raise InputError(f"{key}: it holds an API key, and results record these fields; see api_key_env")


def open_backend(
    spec: str | Path,
    *,
    concurrency: int = 8,
    timeout: float = 600.0,
    connect_timeout: float = 10.0,
    max_body_mib: float = 16.0,
    api_key_env: str | None = None,
    account: Account | None = None,
    extra_body: Mapping[str, Any] | None = None,
    processes: int = 1,
) -> Backend:
    """Open the model that a spec names: `transformers:FOLDER` (or just the folder), `openai:MODEL@URL`, `vllm:FOLDER`.

        backend = open_backend("openai:gpt-4o-mini", concurrency=16)

    Args:
        spec: The model. `openai:MODEL` without a URL is a model of OpenAI; `vllm:FOLDER@4` runs on 4 GPUs.
        concurrency: For an endpoint: the most open requests.
        timeout: For an endpoint: seconds for one request and its retries.
        connect_timeout: For an endpoint: seconds to connect, and for the server's first answer.
        max_body_mib: For an endpoint: the largest response, in MiB.
        api_key_env: For an endpoint: the NAME of the environment variable with the key. Default: OPENAI_API_KEY.
        account: For an endpoint: the budget that pays for the calls.
        extra_body: For an endpoint: fields that are added to every request, such as `{"reasoning_effort": "low"}`.
        processes: For transformers: how many processes to run, each with its own copy of the model.

    Raises:
        InputError: For a malformed spec, a folder without a model, and a limit, key or extra field that cannot be used.
    """
    spec = str(spec)
    check_extra_body(spec, extra_body)
    check_model(spec)
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
            extra_body=extra_body,
        )
    if (on_gpus := _VLLM.fullmatch(spec)) is not None:
        from rag_zeval.models.vllm_local import VLLMBackend

        return VLLMBackend(on_gpus[1], int(on_gpus[2] or 1))
    from rag_zeval.models.transformers_local import TransformersBackend

    return TransformersBackend(spec.removeprefix("transformers:"), processes)


def open_embedder(spec: str, **calls: Any) -> Embedder:
    """Open the embedding model that a spec names: a folder, or `openai:MODEL@URL`. `calls` are options of `Endpoint`.

    Raises InputError for a malformed spec, a folder without a model, and a limit or key that cannot be used.
    """
    check_embedder(spec)
    if (endpoint := check_spec(spec)) is not None:
        from rag_zeval.models.embeddings import OpenAIEmbedder

        return OpenAIEmbedder(*endpoint, **calls)
    from rag_zeval.models.embeddings import LocalEmbedder

    return LocalEmbedder(spec)
