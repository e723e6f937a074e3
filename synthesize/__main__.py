"""`python -m synthesize key=value ...`: answer questions with falling faithfulness, into `responses.jsonl`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from rag_zeval import __version__
from rag_zeval.errors import InputError
from rag_zeval.files import Row, check_fields, file_sha256, first_difference, locate, read_json, write_json, write_text
from rag_zeval.models.folder import check_weights, model_revision, model_sha256
from rag_zeval.progress import Progress
from rag_zeval.rows import RowWriter
from rag_zeval.stages.command import stage_main
from rag_zeval.stages.config import check_settings, stored
from rag_zeval.stages.memory import watched
from rag_zeval.streams import drawn
from rag_zeval.text import one_line
from rag_zeval.yaml_file import read_yaml
from synthesize.answer_set import OLDER, ROW, provenance, read_answers
from synthesize.faithfulness import measure_faithfulness, print_faithfulness
from synthesize.jobs import Batch, Job, JobReader, batches, prompt_hash
from synthesize.natural_questions import asked_hash
from synthesize.settings import NANO, Settings
from synthesize.sources import SourceQuestion, Tally, load_questions, questions_sha256
from synthesize.statistics import print_report, response_statistics

if TYPE_CHECKING:
    from synthesize.answering import Answerer
    from synthesize.workers import Crew

STAGE = "synthesize"
# Keys that determine the content of a row. The paths of source and model are not among them, because `made_with` has
# their hashes.
BINDING = (
    "n_questions", "split", "seed", "alphas", "mixing", "chat_template", "max_new_tokens", "max_sentences",
    "max_passage_tokens",
    "dtype", "engine",
)  # fmt: skip


def run(asked: DictConfig) -> int:
    """Run the stage. Returns 0: done; 1: no question could be answered."""
    settings, config = check_settings(Settings, asked), stored(asked)
    tally, reader = Tally(settings.strict), JobReader(settings)
    check_weights(settings.model)  # before the questions, which may take long to read
    model_hash = model_sha256(settings.model)
    questions = _load(settings, tally, reader)
    made_with = {
        "model_sha256": model_hash,
        "questions_sha256": questions_sha256(questions),
        "prompt": settings.prompt,
        "prompt_hash": prompt_hash(settings.prompt),
    }
    out = Path(settings.out_dir)
    responses = out / "responses.jsonl"
    with RowWriter(responses) as writer:
        config = _claim(out, responses, config, made_with)
        _check_rows(writer, settings)
        writer.settle()
        if any(question.id not in writer.done for question in questions):
            jobs = [reader.read(question) for question in questions]
            _write_known(settings, reader, jobs, writer, provenance(config, made_with))
        if any(question.id not in writer.done for question in questions):
            started = time.monotonic()
            with watched() as memory, _answering(settings, out, model_hash) as answerer:
                if config["batch_tokens"] is None:
                    wanted = [job for job in jobs if not job.refusal]
                    longest = max(len(prompt) for job in wanted for prompt in (job.with_passage, job.without_passage))
                    config["batch_tokens"] = answerer.batch_tokens(longest)
                    _note(out, config, made_with)
                _answer(answerer, len(jobs), batches(jobs, settings, config["batch_tokens"]), writer)
            minutes = (time.monotonic() - started) / 60
            print(f"answered in {minutes:.1f} minutes; peak memory: {memory.taken:.1f} GiB")
        rows = [writer.done[question.id] for question in questions]
    statistics = response_statistics(rows, settings.limits)
    faithfulness = measure_faithfulness(rows, settings.embeddings)
    write_json(
        out / "manifest.json",
        {
            "stage": STAGE,
            "rag_zeval": __version__,
            "config": config,
            "made_with": made_with,
            "model_revision": model_revision(settings.model),
            "records": None if settings.source == NANO else tally.as_row(),
            "responses_sha256": file_sha256(responses),
            **statistics,
            "faithfulness": faithfulness,
        },
    )
    print_report(**statistics, title=str(responses))
    print_faithfulness(faithfulness)
    if not statistics["statistics"]["answered"]:
        print(f"error: no question could be answered; the first failure: {rows[0]['status']}", file=sys.stderr)
        return 1
    return 0


def _load(settings: Settings, tally: Tally, reader: JobReader) -> list[SourceQuestion]:
    """Load the questions, and print which records were left out."""
    with Console(file=drawn(sys.stderr)).status(f"reading {settings.source}"):
        questions = load_questions(settings, tally, lambda question: reader.read(question).refusal is not None)
    if settings.source != NANO:
        print(f"{settings.source}: {len(questions)} questions from {tally.summary()}")
    for reason, faults in tally.named.items():
        for fault in faults:
            print(f"warning: {reason}: {fault}", file=sys.stderr)
    return questions


def _claim(out: Path, responses: Path, config: dict[str, Any], made_with: dict[str, Any]) -> dict[str, Any]:
    """Write config.yaml and return the configuration.

    If `batch_tokens` is None and the folder has rows, the returned configuration has the value of the earlier run.
    Raises InputError, naming the first difference, if the folder has rows made with other settings, model or questions.
    It is also raised if the folder has the manifest of another stage, which this run would replace.
    """
    config_file, manifest = out / "config.yaml", out / "manifest.json"
    if manifest.exists() and read_json(manifest).get("stage") != STAGE:
        raise InputError(f"{out}: holds manifest.json of another stage; choose another out_dir")
    if responses.stat().st_size:
        if not config_file.exists():
            raise InputError(f"{out}: holds responses.jsonl without config.yaml; choose another out_dir")
        before = read_yaml(config_file)
        made_before = before.get("made_with")
        rows_of = OLDER | before | (made_before if isinstance(made_before, dict) else {})
        now = {key: config[key] for key in BINDING} | made_with
        if key := first_difference({key: rows_of.get(key) for key in now}, now):
            raise InputError(
                f"{out}: holds responses made with {key}={one_line(str(rows_of.get(key)))}, not {now[key]}; "
                "choose another out_dir, or remove this one"
            )
        if config["batch_tokens"] is None:
            config = {**config, "batch_tokens": before.get("batch_tokens")}
            with locate(config_file):
                check_settings(Settings, config)
    _note(out, config, made_with)
    return config


def _check_rows(writer: RowWriter, settings: Settings) -> None:
    """Raise InputError, naming file, line and field, for a row that a run with these settings cannot have written."""
    for number, row in enumerate(writer.done.values(), 1):
        with locate(f"{writer.path}:{number}"):
            check_fields(row, ROW)
            if row["status"] == "ok" and [one["alpha"] for one in row["responses"]] != list(settings.alphas):
                raise InputError(f"field 'responses' must hold an answer for each alpha of {list(settings.alphas)}")


def _write_known(settings: Settings, reader: JobReader, jobs: Sequence[Job], writer: RowWriter, made_with: Row) -> None:
    """Write the rows that need no model: those of refused questions, and those with answers from an answer set."""
    for job in jobs:
        if job.refusal and job.question.id not in writer.done:
            writer.append(job.row(f"failed: {job.refusal}"))
    if settings.answers:
        answers = read_answers(settings.answers, made_with)
        missing = [job for job in jobs if job.question.id not in writer.done]
        reused = 0
        for job in missing:
            question = job.question
            known = answers.get((question.id, asked_hash(question.question, question.passage)))
            if known is not None:
                writer.append(job.row("ok", [reader.shortened(response) for response in known]))
                reused += 1
        print(f"reusing the answers to {reused} of {len(missing)} questions")


def _note(out: Path, config: dict[str, Any], made_with: dict[str, Any]) -> None:
    write_text(out / "config.yaml", OmegaConf.to_yaml(OmegaConf.create({**config, "made_with": made_with})))


def _answering(settings: Settings, out: Path, model_hash: str) -> AbstractContextManager[Answerer | Crew]:
    """Return the object that answers batches: an Answerer in this process, or a Crew of several processes."""
    if settings.workers == 1:
        from synthesize.answering import Answerer

        return nullcontext(Answerer(settings))
    from synthesize.workers import hired

    return hired(settings, out, model_hash)


def _answer(answerer: Answerer | Crew, total: int, batches: Sequence[Batch], writer: RowWriter) -> None:
    """Write the missing rows, batch by batch. `total` is the number of questions, finished ones included.

    A batch with any missing row is decoded as a whole, so that a resumed run writes what an uninterrupted run does.
    """
    missing = [batch for batch in batches if any(job.question.id not in writer.done for job in batch)]
    with Progress() as progress, progress.job("answering", total, len(writer.done)) as shown:
        for rows in answerer.answers(missing):
            for row in rows:
                if row["id"] not in writer.done:
                    writer.append(row)
                    shown.advance()


main = stage_main("synthesize", run)

if __name__ == "__main__":
    sys.exit(main())
