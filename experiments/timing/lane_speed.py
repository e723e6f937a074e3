"""`make bench-step PROFILE=small`: time one rank's share of a training step on one CPU thread, on three sides.

- `plain` is transformers alone: `generate` on left-padded prompts, updates on padded rows with a plain log_softmax.
- `before` is the training code of this repository at commit cc43b66, taken from this clone's history.
- `now` is the training code of this checkout.

All sides have the same prompts (the first rows of `make train PROFILE=small`) and the same weights, all of them
trained. Updates use the same rollouts and their rewards; the rollouts of a prompt are a micro-batch. `now` skips
prompts whose rollouts all have the same reward, as training does, because they change nothing. The parts run one after
the other, each in its own process, in fp32 and in bf16. Seconds are CPU time, which depends little on other work on the
machine. All sides keep freed memory in the process, as `make train` does. `products` is the share of an update's time
in matrix products, including attention's. In fp32, `before` and `now` must sample the same tokens, and their gradients
must agree.
"""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from rag_zeval.streams import command_line
from train.freed_memory import KEEP

if TYPE_CHECKING:
    from train.one_gpu.training import Prompt

BEFORE = "cc43b66"  # the commit that this checkout is compared with
ROOT = Path(__file__).resolve().parents[2]
SIDE = Path(__file__).with_name("lane_side.py")
SIDES = ("plain", "before", "now")
PRECISIONS = ("fp32", "bf16")
PROMPTS, ROLLOUTS, NEW_TOKENS = 10, 8, 320  # of a rank in a step: prompts, rollouts of each, most tokens of a rollout
MARGIN = 1e-3  # largest relative difference of the gradient's norm between `before` and `now`, in fp32
HEAD = (
    "| | precision | rollouts, tokens/s | update, tokens/s | rollouts/minute | products | memory, rollouts and update |"
)


def lane_speed() -> None:
    with TemporaryDirectory() as folder:
        unpack_before(Path(folder))
        roots = {"plain": ROOT, "before": Path(folder), "now": ROOT}
        print(table(found := measure(roots, first_prompts(PROMPTS))))
    if not agree(found):
        print("the lanes before and now do not agree in fp32")
        raise typer.Exit(1)


def unpack_before(folder: Path) -> None:
    """Unpack the files of the commit BEFORE into a folder. Raises InputError if this clone lacks the commit."""
    done = subprocess.run(["git", "archive", BEFORE], check=False, cwd=ROOT, capture_output=True)
    if done.returncode:
        raise InputError(
            f"commit {BEFORE} is not here: this needs a git clone with its history (git fetch --unshallow)"
        )
    with tarfile.TarFile(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder)  # our own files


def first_prompts(n: int) -> "list[Prompt]":
    """Return the first prompts of training."""
    from transformers import AutoTokenizer

    from rewards.tokens import PolicyTokens
    from train.curriculum import build_curriculum, prompt_counter, read_questions
    from train.one_gpu.training import read_prompt
    from train.settings import TrainSettings, read_settings

    settings = read_settings(TrainSettings, load_config("train", ["profile=small"]))
    questions, _ = read_questions(settings.responses, settings.alphas, settings.half)
    rows = build_curriculum(settings, questions, prompt_counter(settings.base_model)).train[:n]
    tokenizer = AutoTokenizer.from_pretrained(settings.base_model)
    words = PolicyTokens(tokenizer)
    return [read_prompt(row, tokenizer, words) for row in rows]


def advantages_of(prompts: "Sequence[Prompt]", written: Sequence[tuple[list[int], list[float]]]) -> list[float]:
    """Return the advantage of each rollout (its tokens and log-probabilities), those of the first prompt first.

    They are from the rewards of training: a prompt's are all 0 if its rollouts have the same reward.
    """
    import torch
    from transformers import AutoTokenizer

    from rewards.tokens import PolicyTokens
    from train.one_gpu.training import advantages

    tokenizer = AutoTokenizer.from_pretrained(ROOT / load_config("train", ["profile=small"]).base_model)
    texts = tokenizer.batch_decode([ids for ids, _ in written], skip_special_tokens=True)
    words = PolicyTokens(tokenizer)
    rewards = [prompts[at // ROLLOUTS].score(text, words)["score"] for at, text in enumerate(texts)]
    found: list[float] = advantages(torch.tensor(rewards).view(-1, ROLLOUTS)).flatten().tolist()
    return found


Found = dict[tuple[str, str], dict[str, dict[str, Any]]]  # by side and precision, then by part


def measure(roots: dict[str, Path], prompts: "Sequence[Prompt]") -> Found:
    """Run every part on every side, and print a line for each. Also print how many prompts teach something."""
    settings = load_config("train", ["profile=small"])
    work: dict[str, Any] = {"model": str(ROOT / settings.base_model), "new_tokens": NEW_TOKENS, "rollouts": ROLLOUTS}
    work["prompts"] = [prompt.ids for prompt in prompts for _ in range(ROLLOUTS)]
    found: Found = {(side, precision): {} for precision in PRECISIONS for side in SIDES}
    for part in ("decode", "update"):
        for (side, precision), parts in found.items():
            asked = {**work, "part": part, "precision": precision, "plain": side == "plain"}
            one = parts[part] = run(roots[side], asked)
            one["tokens"] = sum(len(ids) for ids, _ in one.get("written", work.get("written", ())))
            print(f"{part}, {side}, {precision}: {one['seconds']:.1f} s", flush=True)
        if part == "decode":  # all sides update on the same rollouts
            work["written"] = found["now", "fp32"]["decode"]["written"]
            work["advantages"] = advantages_of(prompts, work["written"])
            taught = sum(any(work["advantages"][at : at + ROLLOUTS]) for at in range(0, len(work["written"]), ROLLOUTS))
            print(f"the rollouts of {taught} of {len(prompts)} prompts have different rewards", flush=True)
    return found


def run(root: Path, work: dict[str, Any]) -> dict[str, Any]:
    """Run one part in its own process, with the code of `root`. Raises InputError with its last output if it fails."""
    env = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "GLIBC_TUNABLES": KEEP}
    given = json.dumps(work)
    done = subprocess.run(
        [sys.executable, str(SIDE)],
        check=False,
        cwd=root,
        env=env,
        input=given,
        capture_output=True,
        encoding="utf-8",
    )
    if done.returncode:
        raise InputError(f"{work['part']} in {work['precision']} failed: {done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def agree(found: Found) -> bool:
    """Whether `before` and `now` sample the same tokens and have gradients of the same norm, in fp32."""
    before, now = found["before", "fp32"], found["now", "fp32"]
    tokens = [[ids for ids, _ in lane["decode"]["written"]] for lane in (before, now)]
    norms = [lane["update"]["norm"] for lane in (before, now)]
    return tokens[0] == tokens[1] and abs(norms[0] - norms[1]) <= MARGIN * max(norms)


def table(found: Found) -> str:
    lines = [HEAD, "|---|---|---:|---:|---:|---:|---:|"]
    for (side, precision), parts in found.items():
        decode, update = parts["decode"], parts["update"]
        speeds = [part["tokens"] / part["seconds"] for part in (decode, update)]
        # for rollouts of the same length on all sides: `plain` samples other tokens
        tokens = update["tokens"] / len(decode["written"])
        per_minute = 60 / sum(tokens / speed for speed in speeds)
        memory = f"{decode['gib']:.1f} and {update['gib']:.1f} GiB"
        shares = f"{per_minute:.1f}", f"{update['products']:.0%}"
        cells = [side, precision, *(f"{speed:.0f}" for speed in speeds), *shares, memory]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


main = command_line(lane_speed, "experiments.timing.lane_speed", __doc__)

if __name__ == "__main__":
    sys.exit(main())
