"""`make train DRY_RUN=1`: what it prints and refuses, with nothing there and with answers and a model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from rag_zeval.judge.prompt import judge_messages
from rag_zeval.stages import world
from rag_zeval.stages.config import load_config
from train.__main__ import main
from train.settings import identity

ALPHAS = [0.0, -0.5, -1.0, -1.4]


def planned(profile: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main([f"profile={profile}", "dry_run=true", f"out_dir={tmp_path / 'out' / 'run'}", *words])
    shown = capsys.readouterr()
    assert not (tmp_path / "out").exists()  # nothing is written
    return code, shown.out, shown.err


def test_the_disk_of_the_best_step_is_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = planned("paper", tmp_path, capsys, "export=best")
    assert code == 0
    planned_disk = line("disk", shown)
    assert planned_disk.startswith(
        "397.2 GiB: 3 checkpoints of 113.5 GiB, the best step's weights 28.4 GiB, the model 28.4"
    )


def line(name: str, printed: str) -> str:
    [found] = [text for text in printed.splitlines() if text.startswith(name)]
    return found[len(name) :].strip()


@pytest.mark.parametrize(
    ("profile", "parameters", "needs"),
    [
        ("paper", "7,615,616,512", {"rollout": 60.6, "update": 35.3, "optimizer": 19.7, "sync": 30.9}),
        ("single", "1,543,714,304", {"rollout": 20.2, "update": 17.8, "optimizer": 8.4, "sync": 13.1}),
    ],
)
def test_a_profile_is_planned_with_neither_model_nor_answers(
    profile: str, parameters: str, needs: dict[str, float], repository: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "train", f"profile={profile}", "dry_run=true", f"out_dir={tmp_path / 'out'}"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == ""
    assert "343 steps of 32 prompts x 8 rollouts: K=3 from step 1, K=4 from step 172" in line("steps", done.stdout)
    assert line("tokens", done.stdout).startswith("4,194,304 a step at most")
    assert f"{parameters} parameters (train/model_shapes.json)" in line("model", done.stdout)
    for moment, gib in needs.items():
        total, parts = line(f"  {moment}", done.stdout).split(": ")
        sizes = [float(part.rsplit(" ", 1)[1]) for part in parts.split(", ")]
        assert float(total) == gib == pytest.approx(sum(sizes), abs=0.05 * (len(sizes) + 1))
    rows = done.stdout.splitlines()
    assert len(rows) <= 30 and max(map(len, rows)) <= 120  # one screen
    assert not list(tmp_path.iterdir())


def test_the_documented_plan_is_the_one_that_is_printed(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, shown, _ = planned("paper", tmp_path, capsys)
    section = (repository / "docs" / "paper-scale.md").read_text().split("## The plan\n")[1]
    documented = section.split("```\n")[1].splitlines()
    printed = shown.splitlines()
    assert documented[:-1] == printed[:-1]
    assert printed[-1].startswith(f"{documented[-1]}; free here ")


def write_world(write_responses: Callable[..., str], questions: int) -> tuple[str, list[Any]]:
    examples = list(world.ranked_examples("train", questions, 4, 0))
    rows = []
    for example in examples:
        responses = [{"alpha": a, "text": text} for a, text in zip(ALPHAS, example.answers, strict=True)]
        asked = {"question": example.question.question, "passage": example.question.passage}
        rows.append({"id": example.id, "status": "ok", **asked, "responses": responses})
    return write_responses(rows), examples


SMALL = ["stages=[{k: 4, rows: null}]", "validation=[{k: 4, rows: 2}]", "verl.data.train_batch_size=4"]


def test_with_answers_and_a_model_it_says_what_is_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], write_responses: Callable[..., str], repository: Path
) -> None:
    responses, examples = write_world(write_responses, 12)
    base = repository / "checkpoints" / "nano-base"
    words = [*SMALL, "verl.actor_rollout_ref.actor.ppo_mini_batch_size=4", f"responses={responses}"]
    code, shown, _ = planned("nano", tmp_path, capsys, *words, f"base_model={base}")
    assert code == 0
    assert line("steps", shown).startswith("2 steps of 4 prompts x 8 rollouts: K=4 from step 1")  # 10 of 12 questions
    tokenizer, counts = AutoTokenizer.from_pretrained(base), []
    for example in examples:
        messages = judge_messages("compact", example.question.question, example.question.passage, example.answers)
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        counts.append(len(tokenizer(text, add_special_tokens=False)["input_ids"]))
    mean = float(line("expected", shown).split("a step, ")[1].split(" in each")[0])
    assert min(counts) <= mean <= max(counts)
    assert line("GPU memory", shown) == "not planned: platform=cpu, gpu_memory_gib=None"


def test_answers_without_a_model_give_rows_but_no_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], write_responses: Callable[..., str]
) -> None:
    responses, _ = write_world(write_responses, 12)
    words = [*SMALL, f"responses={responses}", "verl.actor_rollout_ref.actor.ppo_mini_batch_size=4"]
    code, shown, _ = planned("single", tmp_path, capsys, *words)
    assert code == 0 and "without the model their tokens are not known" in line("steps", shown)
    assert "expected" not in shown


def test_too_few_answers_are_refused_after_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], write_responses: Callable[..., str]
) -> None:
    responses, _ = write_world(write_responses, 5)
    code, shown, error = planned("single", tmp_path, capsys, f"responses={responses}")
    assert code == 2 and "343 steps" in line("steps", shown)
    assert error.startswith("error: ") and "needs 100 rows, but" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("profile", "words", "said"),
    [
        (
            "paper",
            ["stages=[{k: 3, rows: 11000}]"],
            "stages[0]: 11000 rows with K=3, but 8800 questions: `make synthesize PROFILE=paper` asks 9000 "
            "(n_questions), and validation takes 200",
        ),
        ("nano", ["stages=[{k: 4, rows: 9}, {k: 3, rows: 1437}]"], "stages[1]: 1437 rows with K=3, but 1436 questions"),
        ("nano", ["validation=[{k: 3, rows: 1500}]"], "stages[0]: 200 rows with K=3, but 0 questions"),
        ("nano", ["validation=[{k: 3, rows: null}]"], "stages[0]: 200 rows with K=3, but 0 questions"),
        ("nano", ["validation=[{k: 3, rows: 800}, {k: 4, rows: 701}]"], "validation[1]: 701 rows with K=4, but 700"),
        (
            "nano",
            ["stages=[{k: 5, rows: 9}]"],
            "stages[0]: K=5, but `make synthesize PROFILE=nano` gives answers at 4 alphas",
        ),
        ("nano", ["alphas=[0,-1]"], "validation[0]: K=3, but alphas names 2"),
    ],
)
def test_rows_that_the_profiles_answers_cannot_give_are_refused(
    profile: str, words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = planned(profile, tmp_path, capsys, *words, "responses=nowhere.jsonl")
    assert code == 2 and error.startswith(f"error: {said}") and error.count("\n") == 1


def test_all_questions_of_the_profile_may_be_used_in_each_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["stages=[{k: 4, rows: 1436}, {k: 3, rows: 1436}]", "responses=nowhere.jsonl"]  # 1500 but for 2 x 32
    assert planned("nano", tmp_path, capsys, *words)[0] == 0


def test_answers_that_are_there_are_counted_whatever_the_profile_asks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], write_responses: Callable[..., str]
) -> None:
    responses, _ = write_world(write_responses, 12)
    words = ["stages=[{k: 4, rows: 11}]", "validation=[{k: 4, rows: 2}]", f"responses={responses}"]
    code, _, error = planned("nano", tmp_path, capsys, *words)
    assert code == 2 and "train stage 1 (K=4) needs 11 rows, but 10 questions gave 10" in error


def test_rows_that_are_not_known_are_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = planned("nano", tmp_path, capsys, "stages=[{k: 3, rows: null}]", "responses=nowhere.jsonl")
    assert code == 0 and line("steps", shown).startswith("not known: rows: null takes all there are")


def test_what_cannot_fit_is_refused_after_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, error = planned("single", tmp_path, capsys, "gpu_memory_gib=12")
    assert code == 2 and line("  update", shown)
    assert error.startswith("error: gpu_memory_gib=12: 'update' needs 17.8 GiB") and error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["verl.data.train_batchsize=8"], "verl.data.train_batchsize: verl has no such key"),
        (["verl.actor_rollout_ref.actor.loss_agg_mode=median"], "verl refuses this configuration: "),
        (["stages=[{k: 1, rows: 3}]"], "stages[0]: must be {k: 2 or more"),
    ],
)
def test_a_wrong_configuration_is_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = planned("single", tmp_path, capsys, *words)
    assert code == 2 and error.startswith(f"error: {message}") and error.count("\n") == 1


def test_a_model_of_unknown_shape_is_said_and_not_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = planned("paper", tmp_path, capsys, "base_model=org/some-model")
    assert code == 0 and "no shape is kept for 'some-model'" in line("model", shown)
    assert "GPU memory" not in shown and "disk" not in shown


def test_a_started_run_may_go_on_with_other_gpus(write_responses: Callable[..., str], repository: Path) -> None:
    words = [
        f"responses={write_world(write_responses, 2)[0]}",
        f"base_model={repository / 'checkpoints' / 'nano-base'}",
    ]
    one, other = (
        identity(load_config("train", [*words, *more])) for more in ([], ["gpu_memory_gib=40", "dry_run=true"])
    )
    assert one == other
