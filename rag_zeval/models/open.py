"""Opens the model that a spec names. This module imports the backends; no backend imports it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_zeval.budget import Account
from rag_zeval.errors import InputError
from rag_zeval.models.language_model import Backend

if TYPE_CHECKING:
    from rag_zeval.models.embeddings import Embedder

# No user, password, query or fragment: specs are written into run files, and secrets must not be.
_ENDPOINT = re.compile(
    r"openai:((?:(?!://).)+)@(https?://(?:[\w.-]+|\[[\da-fA-F:]+\])(?::\d{1,5})?(?:/[\w./~:%+-]*)?)", re.ASCII
)
# No "@", "/" or port: an endpoint whose http:// was forgotten is no model of OpenAI's.
_OPENAI_MODEL = re.compile(r"openai:(?!.*:\d+$)([\w.:-]+)", re.ASCII)
OPENAI_URL = "https://api.openai.com/v1"
SPECS = "transformers:FOLDER, vllm:FOLDER, openai:MODEL@http://host:port/v1 or, for OpenAI itself, openai:MODEL"
EMBEDDER_SPECS = "FOLDER or openai:MODEL@http://host:port/v1"


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


def open_embedder(spec: str, **calls: Any) -> Embedder:
    """The embedder a spec names: a folder, or `openai:MODEL@URL`, called as `Endpoint` takes it (`calls`).

    Raises InputError for a spec of no such form, a folder without a model, a limit or key that cannot be used.
    """
    if (endpoint := check_spec(spec)) is not None:
        from rag_zeval.models.embeddings import OpenAIEmbedder

        return OpenAIEmbedder(*endpoint, **calls)
    if not Path(spec).is_dir():
        raise InputError(f"embeddings '{spec}': no such folder; name a model as {EMBEDDER_SPECS}")
    from rag_zeval.models.embeddings import LocalEmbedder

    return LocalEmbedder(spec)
