"""`python -m synthesize key=value ...`: answers of falling faithfulness, from questions to `responses.jsonl`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rag_zeval import __version__
from rag_zeval.config import load_config
from rag_zeval.errors import InputError, exit_status
from rag_zeval.files import RowWriter, file_sha256, model_sha256, write_json, write_text
from synthesize.fitting import Fitting
from synthesize.prompt import prompt_hash
from synthesize.settings import Settings, read_settings
from synthesize.sources import NANO, SourceQuestion, Tally, load_questions, questions_sha256
from synthesize.statistics import print_statistics, statistics

# Keys that decide what a row says. The paths of source and model do not: their hashes stand in `made_with`.
BINDING = (
    "n_questions", "split", "seed", "alphas", "chat_template", "max_new_tokens", "max_passage_tokens", "dtype",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 no question could be answered, 2 the input is wrong."""
    words = sys.argv[1:] if argv is None else argv
    return exit_status(lambda: run(OmegaConf.to_container(load_config("synthesize", words), resolve=True)))


def run(config: Any) -> int:
    settings = read_settings(config)
    tally = Tally(settings.strict)
    questions = _load(settings, tally)
    made_with = {
        "model_sha256": model_sha256(settings.model),
        "questions_sha256": questions_sha256(questions),
        "prompt": settings.prompt,
        "prompt_hash": prompt_hash(settings.prompt),
    }
    out = Path(settings.out_dir)
    responses = out / "responses.jsonl"
    _claim(out, responses, {**config, "made_with": made_with})
    with RowWriter(responses) as writer:
        if any(question.id not in writer.done for question in questions):
            _answer(settings, questions, writer)
        rows = [writer.done[question.id] for question in questions]
    found = statistics(rows)
    write_json(
        out / "manifest.json",
        {
            "stage": "synthesize",
            "rag_zeval": __version__,
            "config": config,
            "made_with": made_with,
            "records": None if settings.source == NANO else tally.as_row(),
            "responses_sha256": file_sha256(responses),
            "statistics": found,
        },
    )
    print_statistics(found, str(responses))
    if not found["answered"]:
        print(f"error: no question could be answered; the first: {rows[0]['status']}", file=sys.stderr)
        return 1
    return 0


def _load(settings: Settings, tally: Tally) -> list[SourceQuestion]:
    """The questions; what was left out on the way is said before anything is answered."""
    from rich.console import Console

    fitting = Fitting(settings)
    with Console(stderr=True).status(f"reading {settings.source}"):
        questions = load_questions(
            settings.source,
            settings.split,
            settings.n_questions,
            settings.seed,
            settings.passage,
            tally,
            lambda question: fitting.refusal(question) is not None,
        )
    if settings.source != NANO:
        print(f"{settings.source}: {len(questions)} questions from {tally.summary()}")
    for reason, named in tally.named.items():
        print(*(f"warning: {reason}: {fault}" for fault in named), sep="\n", file=sys.stderr)
    return questions


def _claim(out: Path, responses: Path, made_of: Mapping[str, Any]) -> None:
    """Write config.yaml, unless the folder holds rows made of something else: InputError naming what differs."""
    noted = out / "config.yaml"
    if responses.exists() and responses.stat().st_size:
        if not noted.exists():
            raise InputError(f"{out}: holds responses.jsonl without config.yaml; give another out_dir")
        before, now = _binding(OmegaConf.to_container(OmegaConf.load(noted))), _binding(made_of)
        for key, value in now.items():
            if before.get(key) != value:
                raise InputError(
                    f"{out}: holds responses made with {key}={before.get(key)}, not {value}; "
                    "give another out_dir, or remove this one"
                )
    write_text(noted, OmegaConf.to_yaml(OmegaConf.create(dict(made_of))))


def _binding(made_of: Any) -> dict[str, Any]:
    return {key: made_of.get(key) for key in BINDING} | dict(made_of.get("made_with") or {})


def _answer(settings: Settings, questions: list[SourceQuestion], writer: RowWriter) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from synthesize.answering import Answerer

    answerer = Answerer(settings)
    rate = TextColumn("{task.fields[rate]}")
    columns = ("answering", BarColumn(), MofNCompleteColumn(), rate, "left", TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("", total=len(questions), completed=len(writer.done), rate="")
        for row in answerer.rows(questions, frozenset(writer.done)):
            writer.append(row)
            progress.advance(task)
            speed = progress.tasks[0].speed
            progress.update(task, rate=f"{speed:.1f} questions/s" if speed else "")


if __name__ == "__main__":
    sys.exit(main())
