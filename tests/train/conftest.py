import json
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from rag_zeval.stages import world
from train.leftovers import MARK

ALPHAS = (0.0, -0.5, -1.0, -1.4)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def repository() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def nano_base() -> Path:
    return ROOT / "checkpoints" / "nano-base"


@pytest.fixture(scope="session")
def nano_responses(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Writes answers of the nano world, with the alpha that their true support deserves; returns the file's path."""

    def write(questions: int = 12, candidates: int = 4) -> str:
        path = tmp_path_factory.mktemp("responses") / "responses.jsonl"
        rows = []
        for example in world.ranked_examples("train", questions, candidates, 0):
            best_first = sorted(range(candidates), key=lambda at: -example.true_support[at])
            responses = [{"alpha": a, "text": example.answers[at]} for a, at in zip(ALPHAS, best_first, strict=False)]
            asked = {"question": example.question.question, "passage": example.question.passage}
            rows.append({"id": example.id, "status": "ok", **asked, "responses": responses})
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return write


@pytest.fixture(scope="session")
def train_command() -> Callable[..., list[str]]:
    """A run of 4 real steps of GRPO on the CPU, 2 prompts with 4 rollouts each, but for the words that change it."""
    worker = "verl.actor_rollout_ref"
    small = ["profile=nano", "stages=[{k: 3, rows: 4}, {k: 4, rows: 4}]", "validation=[{k: 3, rows: 2}]"]
    small += ["verl.data.train_batch_size=2", f"{worker}.rollout.n=4", f"{worker}.actor.ppo_mini_batch_size=2"]
    small += [f"{worker}.actor.ppo_micro_batch_size_per_gpu=4", f"{worker}.actor.optim.lr_warmup_steps=1"]
    small += [f"{worker}.{model}.log_prob_micro_batch_size_per_gpu=4" for model in ("ref", "rollout")]
    small += ["verl.trainer.save_freq=2", "verl.trainer.test_freq=4"]

    def command(responses: str, out_dir: Path, *words: str) -> list[str]:
        return [sys.executable, "-m", "train", *small, f"responses={responses}", f"out_dir={out_dir}", *words]

    return command


@pytest.fixture(scope="session")
def processes_of() -> Callable[[Path], list[str]]:
    """The command lines of the live processes that bear the mark of the run in a folder, or run in that folder.

    Ray's helpers write their name over their environment, and with it the mark.
    """

    def find(out_dir: Path) -> list[str]:
        commands = []
        for process in psutil.process_iter():
            try:
                of_the_run = str(out_dir) in (process.cwd(), process.environ().get(MARK))
                if of_the_run and process.status() != psutil.STATUS_ZOMBIE:
                    commands.append(" ".join(process.cmdline()))
            except (psutil.Error, OSError):
                continue
        return commands

    return find


@pytest.fixture(scope="session")
def check_trained(nano_base: Path) -> Callable[[Path], None]:
    """A run's `model/` is a plain model, in fp32, made of the base, which it was trained away from."""

    def check(model: Path) -> None:
        from safetensors.torch import load_file
        from transformers import AutoModelForCausalLM, AutoTokenizer

        weights, before = (load_file(folder / "model.safetensors") for folder in (model, nano_base))
        assert weights.keys() == before.keys() and {str(w.dtype) for w in weights.values()} == {"torch.float32"}
        assert max(float((weights[name] - before[name]).abs().max()) for name in weights) > 1e-5  # it learned something
        parameters = AutoModelForCausalLM.from_pretrained(model).num_parameters()
        assert parameters == sum(w.numel() for w in before.values())
        assert json.loads((model / "config.json").read_text())["dtype"] == "float32"
        assert AutoTokenizer.from_pretrained(model)("judge")["input_ids"]
        assert (model / "tokenizer.json").read_bytes() == (nano_base / "tokenizer.json").read_bytes()

    return check
