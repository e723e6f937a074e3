"""The second part of `make bench-step`: time whole training steps of the nano profile with one rank and with two.

It runs `make train` twice on the same answers. With one rank, one process trains and one decodes, in turn, so a second
core is idle. With two ranks, as in the profile, there are two of each. Times are those that verl logs for each step,
from the first rollout to the new weights in the decoders. Step 1 is left out, because it includes set-up. Its rollouts
come from the same weights and seeds: `same rollouts` is the number that are the same word for word. One entry is
appended to `runs/speed/summary.json`, as by the first part (ours: two ranks; theirs: one).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from experiments.driver import StageError, StageProcesses
from experiments.plan import Command
from experiments.timing.pairs import Entry, append, entry
from rag_zeval.files import read_jsonl
from rag_zeval.stages.training_log import read_run
from rag_zeval.streams import exit_status, run_command

STEPS = 6
ROWS = 8  # of a step, as the profile has it
CANDIDATES = 3
QUESTIONS = 2  # for each row: of some, no three answers differ
TIME = "timing_s/step"


def measure_ranks(steps: int, folder: Path) -> Entry:
    """The summary's entry for `steps` steps and one more, in an empty folder. Raises StageError."""
    questions = QUESTIONS * ROWS * (steps + 2)
    answers, stages = folder / "answers", StageProcesses()
    asked = ("profile=nano", f"n_questions={questions}", f"out_dir={answers}")
    stages.run(Command("synthesize", asked, {}), folder / "synthesize.log", "answers")
    runs = {ranks: folder / f"ranks-{ranks}" for ranks in (1, 2)}
    for ranks, run in runs.items():
        words = (
            "profile=nano",
            f"responses={answers / 'responses.jsonl'}",
            f"out_dir={run}",
            f"stages=[{{k: {CANDIDATES}, rows: {ROWS * (steps + 1)}}}]",
            f"validation=[{{k: {CANDIDATES}, rows: {ROWS}}}]",
            "verl.trainer.val_before_train=false",
            "verl.trainer.test_freq=-1",
            f"verl.trainer.save_freq={steps + 1}",
            f"verl.trainer.n_gpus_per_node={ranks}",
        )
        stages.run(Command("train", words, {}), folder / f"{run.name}.log", f"{ranks} ranks")
    times = {ranks: [data[TIME] for step, data in read_run(run).items() if step > 1] for ranks, run in runs.items()}
    pairs = [{"ours_s": two, "theirs_s": one} for one, two in zip(times[1], times[2], strict=True)]
    first, second = (_rollouts(run) for run in runs.values())
    same = sum(one == other for one, other in zip(first, second, strict=True))
    step = entry("step with two ranks", pairs, 1 - same / len(first))
    return {
        **step,
        "ran": f"{steps} steps of {ROWS} prompts x {len(first) // ROWS}, K={CANDIDATES}, after one more; "
        f"same rollouts in step 1: {same} of {len(first)}",
    }


def _rollouts(run: Path) -> list[tuple[str, str]]:
    rows = read_jsonl(run / "rollouts" / "train" / "1.jsonl", {"input": str, "output": str})
    return sorted((row["input"], row["output"]) for row in rows)


def table(step: Entry) -> str:
    """Seconds of a step and their ratio, in Markdown, then what was run."""
    row = f"| {step['theirs_s']:.2f} s | {step['ours_s']:.2f} s | {step['ratio']:.2f} |"
    return "\n".join(["| one rank | two ranks | ratio |", "|---:|---:|---:|", row, step["ran"]])


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 measured, 1 a run failed, 2 the input is wrong."""
    return run_command(rank_speed, argv, "experiments.timing.rank_speed", __doc__)


def rank_speed(steps: Annotated[int, typer.Option(min=1, help="The number of steps to time.")] = STEPS) -> None:
    folder = Path(tempfile.mkdtemp(prefix="rag-zeval-ranks-"))
    try:
        step = measure_ranks(steps, folder)
    except StageError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    shutil.rmtree(folder)
    print(table(step))
    append(step)


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
