"""Serves a judge's folder with vLLM's OpenAI-compatible server."""

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rag_zeval.errors import InputError, missing
from rag_zeval.files import read_json
from rag_zeval.models.folder import STRUCTURED, model_config, model_sha256, read_card, window_of
from rag_zeval.models.open import check_spec

URL = "http://127.0.0.1:8000/v1"  # vLLM's default port
LONGEST = 16_384  # tokens of prompt and reply: what the paper trains with
MODULE = "vllm.entrypoints.openai.api_server"


def serve(folder: str, extra: Sequence[str] = ()) -> None:
    """Replace this process by vLLM's server for a model folder. `extra` are arguments for vLLM.

    Does not return. Raises InputError if the folder has no model, or if vLLM is not installed.
    """
    command = serve_command(folder, extra)
    card = read_card(folder)
    if importlib.util.find_spec("vllm") is None:
        raise InputError(missing("vllm", f"serving {folder}"))
    name = command[command.index("--served-model-name") + 1]
    asked = f"--model openai:{name}@{URL} --variant {card.get('variant', 'paper')}"
    asked += " --structured" * card.get(STRUCTURED, False)
    print(f"serving {folder}; ask it with: {asked} (unless you set another name or port)", flush=True)
    os.execv(command[0], command)


def served_name(folder: str | Path) -> str:
    """Return the name under which a model is served. It contains a hash of the weights.

    The cache and result rows identify an endpoint's model by URL and name, so two models that are served one after the
    other need different names. Raises InputError if the folder has no model.
    """
    return f"judge-{model_sha256(folder)[:12]}"


def served_spec(folder: str | Path, spec: str | None = None) -> str:
    """Return the spec of the model that is served from a folder.

    spec: where it is served; by default on vLLM's port on this machine. Raises InputError if the folder has no model,
    or a model other than the one that the spec names.
    """
    name = served_name(folder)
    endpoint = check_spec(spec) if spec is not None else (name, URL)
    if endpoint is None or endpoint[0] != name:
        raise InputError(f"the model in {folder} is served as {name}, not as {spec}")
    return f"openai:{name}@{endpoint[1]}"


def serve_command(folder: str, extra: Sequence[str] = ()) -> list[str]:
    """Return the server's command line. `extra` comes last, so it overrides our arguments.

    The context window is the model's, at most LONGEST. Only this machine can connect, and web pages that are open on it
    are refused. Sampling follows the request, not the model's generation_config.json. Raises InputError if the folder
    has no model, or its model states no window.
    """
    path = model_config(folder)
    window = window_of(read_json(path), path)
    if window is None:
        raise InputError(f"{path}: field 'max_position_embeddings' is missing")
    command = [sys.executable, "-m", MODULE, "--model", str(path.parent.resolve())]
    command += ["--served-model-name", served_name(folder), "--host", "127.0.0.1", "--allowed-origins", "[]"]
    command += ["--max-model-len", str(min(window, LONGEST)), "--seed", "0"]
    return [*command, "--generation-config", "vllm", *extra]
