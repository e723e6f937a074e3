"""The commands that serve a judge over HTTP, `mock-judge` and `serve`, and `smoke`, which tests whether one answers."""

from pathlib import Path
from typing import Annotated

import typer

from rag_zeval.commands.arguments import (
    ConnectTimeout,
    ExtraBody,
    KeyEnv,
    ModelSpec,
    Structured,
    Timeout,
    VariantName,
    read_extra_body,
)
from rag_zeval.errors import InputError


def mock_judge(
    port: Annotated[int, typer.Option(help="The port to listen on. 0 picks any free port.")] = 0,
    replies: Annotated[
        Path | None,
        typer.Option(
            help="A JSON file with an object {text: reply}. A prompt that contains the text gets this reply. "
            "Default: the judge follows its own rule."
        ),
    ] = None,
    faults: Annotated[
        str,
        typer.Option(
            help="Make the next requests fail, one fault each, separated by commas; ok stands for no fault. "
            "Example: ok,429,length. A wrong name prints all of them. Default: no faults."
        ),
    ] = "",
) -> None:
    """Serve a rule-based mock judge until you stop it, to try everything without a model or an API key.

    Its rule: a statement is supported if its exact sentence occurs in the text. It prints its address when it is ready,
    and runs until Ctrl-C.
    """
    from rag_zeval.literal_judge import count_tokens, literal_reply
    from rag_zeval.scripted_judge import FAULTS, ScriptedJudge, read_replies

    names = [name.strip() for name in faults.split(",") if name.strip()]
    for name in names:
        if name not in ("ok", *FAULTS):
            raise InputError(f"--faults: unknown fault '{name}'. Choose from: ok, {', '.join(FAULTS)}")
    judge = ScriptedJudge(literal_reply if replies is None else read_replies(replies), port=port, keep=False)
    judge.count = count_tokens if replies is None else None
    judge.faults.extend(names)
    print(f"mock judge: --model {judge.spec()}   (Ctrl-C stops it)", flush=True)
    try:
        judge.thread.join()
    except KeyboardInterrupt:
        judge.close()


def serve(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="The folder of a model, as training writes it.")],
) -> None:
    """Serve MODEL with vLLM's OpenAI-compatible server.

    All other arguments go to vLLM, such as --port 8001, --dtype float32 or --tensor-parallel-size 2.
    """
    from rag_zeval.serve import serve as become_server

    become_server(model, context.args)


def smoke(
    model: ModelSpec = None,
    served: Annotated[
        Path | None, typer.Option(help="The folder of the model that `rag-zeval serve` serves on this machine.")
    ] = None,
    variant: VariantName = None,
    structured: Structured = None,
    timeout: Timeout = 45.0,
    connect_timeout: ConnectTimeout = 10.0,
    extra_body: ExtraBody = None,
    api_key_env: KeyEnv = None,
) -> None:
    """Ask a judge about one example and print its scores, its status and its speed.

    Name the judge with --model. For a judge that `rag-zeval serve` serves on this machine, give its folder with
    --served: the prompt then follows the model's card. Add --model if it is not on port 8000. The exit status is 1 if
    the judge's reply cannot be read.
    """
    from rag_zeval.judge.smoke import smoke as ask_once
    from rag_zeval.models.open import check_structured
    from rag_zeval.serve import served_spec

    spec = model if served is None else served_spec(served, model)
    if spec is None:
        raise InputError("no judge: add --model with any judge, or --served with the folder that is served here")
    check_structured(spec, structured)
    extra = read_extra_body(extra_body)
    calls = {"timeout": timeout, "connect_timeout": connect_timeout, "api_key_env": api_key_env, "extra_body": extra}
    if not ask_once(spec, served, variant=variant, structured=structured, **calls):
        raise typer.Exit(1)
