"""`make train DRY_RUN=1`: what it prints and refuses, with nothing there and with answers and a model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from rag_zeval.judge.prompt import judge_messages
from rag_zeval.stages import world
from train.__main__ import main

Planned = Callable[..., tuple[int, str, str]]


@pytest.fixture
def planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Planned:
    """The exit status of a dry run, what it prints, and its errors; nothing is written."""

    def plan(profile: str, *words: str) -> tuple[int, str, str]:
        code = main([f"profile={profile}", "dry_run=true", f"out_dir={tmp_path / 'out' / 'run'}", *words])
        shown = capsys.readouterr()
        assert not (tmp_path / "out").exists()
        return code, shown.out, shown.err

    return plan


def line(name: str, printed: str) -> str:
    [row] = [text for text in printed.splitlines() if text.startswith(name)]
    return row[len(name) :].strip()


def test_the_plan_of_lora_on_one_gpu(planned: Planned) -> None:
    code, shown, error = planned("single", "export=best")
    assert code == 0 and error == ""
    assert "343 steps of 32 prompts x 8 rollouts: K=3 from step 1, K=4 from step 172" in line("steps", shown)
    assert line("tokens", shown).startswith("4,194,304 a step at most")
    assert "1,543,714,304 parameters (train/model_shapes.json)" in line("model", shown)
    for moment, gib in {"rollout": 20.2, "update": 17.8, "optimizer": 8.4, "sync": 13.1}.items():
        total, parts = line(f"  {moment}", shown).split(": ")
        sizes = [float(part.rsplit(" ", 1)[1]) for part in parts.split(", ")]
        assert float(total) == gib == pytest.approx(sum(sizes), abs=0.05 * (len(sizes) + 1))
    disk = "7.1 GiB: 3 checkpoints of 0.4 GiB, the best step's weights 0.1 GiB, the model 5.8 GiB; free here "
    assert line("disk", shown).startswith(disk)


def test_the_documented_plan_is_printed_with_neither_model_nor_answers(repository: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "train", "profile=paper", "dry_run=true", f"out_dir={tmp_path / 'out'}"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr == ""
    section = (repository / "docs" / "paper-scale.md").read_text().split("## The plan\n")[1]
    documented, printed = section.split("```\n")[1].splitlines(), done.stdout.splitlines()
    assert documented[:-1] == printed[:-1]
    assert printed[-1].startswith(f"{documented[-1]}; free here ")
    assert len(printed) <= 30 and max(map(len, printed)) <= 120  # one screen
    assert not list(tmp_path.iterdir())


SMALL = ["stages=[{k: 4, rows: null}]", "validation=[{k: 4, rows: 2}]", "verl.data.train_batch_size=4",
         "verl.actor_rollout_ref.actor.ppo_mini_batch_size=4"]  # fmt: skip


def test_with_answers_and_a_model_it_says_what_is_expected(
    planned: Planned, nano_responses: Callable[..., str], nano_base: Path
) -> None:
    words = [*SMALL, f"responses={nano_responses(12)}"]
    code, shown, _ = planned("nano", *words, f"base_model={nano_base}")
    assert code == 0
    assert line("steps", shown).startswith("2 steps of 4 prompts x 8 rollouts: K=4 from step 1")  # 10 of 12 questions
    tokenizer, counts = AutoTokenizer.from_pretrained(nano_base), []
    for example in world.ranked_examples("train", 12, 4, 0):
        messages = judge_messages("compact", example.question.question, example.question.passage, example.answers)
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        counts.append(len(tokenizer(text, add_special_tokens=False)["input_ids"]))
    mean = float(line("expected", shown).split("a step, ")[1].split(" in each")[0])
    assert min(counts) <= mean <= max(counts)
    assert line("GPU memory", shown) == "not planned: platform=cpu, gpu_memory_gib=None"


PROFILE_GIVES = "`make synthesize PROFILE=nano` gives answers at 4"


@pytest.mark.parametrize(
    ("profile", "words", "said"),
    [
        ("paper", ["stages=[{k: 3, rows: 11000}]"], "stages[0]: 11000 rows with K=3, but 8800 questions"),
        ("nano", ["stages=[{k: 4, rows: 9}, {k: 3, rows: 1437}]"], "stages[1]: 1437 rows with K=3, but 1436 questions"),
        ("nano", ["validation=[{k: 3, rows: null}]"], "stages[0]: 200 rows with K=3, but 0 questions"),
        ("nano", ["validation=[{k: 3, rows: 800}, {k: 4, rows: 701}]"], "validation[1]: 701 rows with K=4, but 700"),
        ("nano", ["stages=[{k: 5, rows: 9}]"], f"stages[0]: K=5, but {PROFILE_GIVES}"),
        ("nano", ["alphas=[0,-1]"], "validation[0]: K=3, but alphas names 2"),
        ("single", ["responses=FIVE"], "needs 100 rows, but"),
        ("single", ["gpu_memory_gib=12"], "gpu_memory_gib=12: 'update' needs 17.8 GiB"),
        ("single", ["verl.actor_rollout_ref.actor.loss_agg_mode=median"], "Invalid loss_agg_mode: median"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    profile: str, words: list[str], said: str, planned: Planned, nano_responses: Callable[..., str]
) -> None:
    """After the plan, but for what verl itself refuses."""
    words = [word.replace("FIVE", nano_responses(5)) for word in ["responses=nowhere.jsonl", *words]]
    code, shown, error = planned(profile, *words)
    assert code == 2 and error.startswith("error: ") and said in error and error.count("\n") == 1
    assert line("steps", shown) if "median" not in said else "verl refuses this configuration: " in error


def test_all_questions_of_the_profile_may_be_used_in_each_stage(planned: Planned) -> None:
    words = ["stages=[{k: 4, rows: 1436}, {k: 3, rows: 1436}]", "responses=nowhere.jsonl"]  # 1500 but for 2 x 32
    assert planned("nano", *words)[0] == 0


@pytest.mark.parametrize(
    ("profile", "words", "name", "said", "missing"),
    [
        ("nano", ["stages=[{k: 3, rows: null}]"], "steps", "not known: rows: null takes all there are", "expected"),
        ("paper", ["base_model=org/some-model"], "model", "no shape is kept for 'some-model'", "disk"),
        ("single", [*SMALL, "responses=TWELVE"], "steps", "their tokens are unknown without the model", "expected"),
    ],
)
def test_what_is_not_known_is_said_and_not_refused(
    profile: str,
    words: list[str],
    name: str,
    said: str,
    missing: str,
    planned: Planned,
    nano_responses: Callable[..., str],
) -> None:
    words = [word.replace("TWELVE", nano_responses(12)) for word in ["responses=nowhere.jsonl", *words]]
    code, shown, _ = planned(profile, *words)
    assert code == 0 and said in line(name, shown) and missing not in shown
