"""Options that several commands take, and functions that check and read them."""

import contextlib
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_zeval.errors import InputError
from rag_zeval.judge.prompt import VARIANTS

WHAT, JUDGE, ENDPOINT, COST, OUTPUT = "What to judge", "Judge", "Calls to the endpoint", "Cost", "Output"  # of --help


def option(panel: str, help: str, *names: str, **more: Any) -> Any:
    """Return an option in a panel of --help. Its name is the parameter's unless `names` are given."""
    if "min" in more:
        more.setdefault("metavar", "N")  # short, so that the help text has room in a terminal of 80 columns
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


INPUT = "INPUT"  # the name of a file to read in errors
ResultPath = Annotated[Path, typer.Argument(help="The result file that `rag-zeval evaluate` wrote.")]
Sheet = Annotated[Path, typer.Argument(help="A labelled sheet of `rag-zeval sample`, with its .json file beside it.")]
DrawnFrom = Annotated[Path, typer.Argument(help="The result file that the sheet was drawn from.")]
Map = Annotated[
    list[str],
    option(
        WHAT,
        "The column that holds a field, such as question=q or answer=output.text. Give it once for each field. "
        "If each system has a column of answers, repeat the option: --map answer=old --map answer=new. "
        "Default: columns are found by their names.",
    ),
]
QuestionMap = Annotated[  # for commands that judge nothing
    list[str],
    typer.Option(
        help="The column that holds a field, or a path to it, such as question=q or truth=meta.answer. Give it once "
        "for each field. Default: columns are found by their names."
    ),
]
ModelSpec = Annotated[
    str | None,
    option(
        JUDGE,
        "The model that judges: transformers:FOLDER, vllm:FOLDER, openai:MODEL@URL or, for OpenAI itself, "
        "openai:MODEL. Your texts are sent to it.",
    ),
]
VariantName = Annotated[
    str | None,
    option(
        JUDGE,
        f"The prompt of the rag_zeval scorer, one of {', '.join(VARIANTS)}. "
        "Default: the one that the model was trained with, or the paper's.",
    ),
]
Structured = Annotated[
    bool | None,
    option(
        JUDGE,
        "Force replies into the JSON format of the judge. Default: only if the card in the judge's folder says so.",
        "--structured/--no-structured",
    ),
]
Prices = Annotated[
    Path | None,
    option(
        COST,
        'A JSON file with prices in dollars per million tokens: {MODEL: {"prompt": 0.15, "completion": 0.60}}. '
        "Default: costs are shown in tokens only.",
    ),
]
Timeout = Annotated[float, option(ENDPOINT, "How many seconds to wait for a reply, retries included.")]
ConnectTimeout = Annotated[
    float, option(ENDPOINT, "How many seconds to wait for a connection. Replies may take longer: see --timeout.")
]
KeyEnv = Annotated[
    str | None,
    option(ENDPOINT, "The NAME of the environment variable that holds the API key. Default: OPENAI_API_KEY."),
]
ExtraBody = Annotated[
    str | None,
    option(
        ENDPOINT,
        """A JSON object of more fields for every request to the model, such as '{"reasoning_effort": "low"}'.""",
    ),
]
EmbeddingsKeyEnv = Annotated[
    str | None,
    option(ENDPOINT, "The NAME of the environment variable with the key for --embeddings. Default: OPENAI_API_KEY."),
]


def check_files(read: Iterable[Path | None], *written: tuple[str, Path | None]) -> None:
    """Check all files that a command names before it does anything.

    read: those that it reads. written: those that it will write, each with its option. None: not named. Raises
    InputError if two of them are the same file, or if a file to write is no regular file or cannot be written.
    """
    from rag_zeval.files import check_regular, check_writable

    seen: list[tuple[str, Path]] = []
    for name, path in (*((INPUT, path) for path in read), *written):
        if path is None:
            continue
        if name != INPUT:
            check_regular(path)
            check_writable(path)
        for other, before in seen:
            hard = path.exists() and before.exists() and path.samefile(before)
            if hard or os.path.realpath(path) == os.path.realpath(before):
                if name == other == INPUT:
                    raise InputError(f"{path}: is given twice; remove one of the two")
                raise InputError(f"{name} {path} is the same file as {other}: name another file")
        seen.append((name, path))


def check_threshold(threshold: float) -> None:
    """Raise InputError if the threshold is outside [0, 1]."""
    if not 0 <= threshold <= 1:
        raise InputError(f"--threshold is {threshold}, but must be from 0 to 1")


def read_extra_body(text: str | None) -> dict[str, Any] | None:
    """Return the fields that --extra-body holds. Raises InputError if it is no JSON object."""
    from rag_zeval.files import DECODER

    if text is None:
        return None
    with contextlib.suppress(ValueError, InputError, RecursionError):
        if isinstance(fields := DECODER.decode(text), dict):
            return fields
    raise InputError("""--extra-body: expected a JSON object in quotes, such as '{"reasoning_effort": "low"}'""")


def read_names(words: Sequence[str]) -> Mapping[str, str | list[str]]:
    """Return `["question=q"]` as `{"question": "q"}`; a field with several columns has a list of them.

    Raises InputError for another form.
    """
    names: dict[str, list[str]] = {}
    for word in words:
        ours, sign, theirs = word.partition("=")
        if not (ours and sign and theirs):
            raise InputError(f"--map {word}: write field=column, such as question=q")
        names.setdefault(ours, []).append(theirs)
    return {ours: columns if len(columns) > 1 else columns[0] for ours, columns in names.items()}


def read_thresholds(words: Sequence[str], metrics: Sequence[str]) -> Mapping[str, float]:
    """Return `["bleu=0.3"]` as `{"bleu": 0.3}`. Raises InputError for another form or an unknown metric."""
    thresholds: dict[str, float] = {}
    for word in words:
        metric, _, number = word.rpartition("=")
        with contextlib.suppress(ValueError):
            thresholds[metric] = float(number)
        if metric not in metrics or not math.isfinite(thresholds.get(metric, math.nan)):
            raise InputError(f"--threshold {word}: write METRIC=NUMBER with one of: {', '.join(metrics)}")
    return thresholds
