"""Each finding passes on what a healthy run leaves, and fails on what a fault leaves."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from experiments.first_hour import traces
from rag_zeval.judge.prompt import judge_messages
from rag_zeval.models.decoding import stop_ids
from rag_zeval.models.language_model import chat_ids
from rag_zeval.stages import world
from train.leftovers import MARK, all_segments
from train.rollouts.agreement import CORRELATION, MEAN
from train.verl_rehearsal.notes import note

NANO_BASE = Path(__file__).resolve().parents[3] / "checkpoints" / "nano-base"


def write_lines(path: Path, rows: Sequence[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def log_steps(run: Path, attempts: Sequence[Sequence[tuple[int, dict[str, float]]]]) -> None:
    for number, steps in enumerate(attempts, 1):
        rows = [{"step": step, "data": data} for step, data in steps]
        write_lines(run / "metrics" / f"attempt-{number}.jsonl", rows)


def measured(kl: float, mean: float, correlation: float = 1.0) -> dict[str, float]:
    return {traces.KL: kl, MEAN: mean, CORRELATION: correlation, "training/rollout_probs_diff_max": mean}


@pytest.mark.parametrize(
    ("kind", "data", "moving", "passed"),
    [
        ("fp32", measured(0.01, 1e-7), True, True),
        ("fp32", measured(0.01, 1e-4), True, False),
        ("fp32", measured(0.0, 1e-7), True, False),
        ("fp32", measured(0.0, 1e-7), False, True),
        ("fp32", None, False, False),
        ("fp32", measured(0.01, float("nan")), True, False),
        ("fp32", {traces.KL: 0.01}, True, False),
        ("bf16", measured(0.01, 3e-4, 0.9995), True, True),
        ("bf16", measured(0.01, 0.5, 0.9995), True, False),
        ("bf16", measured(0.01, 4.1e-3, 0.9504), True, False),
        ("cpu", {**measured(0.01, 0.5), traces.LARGEST: 1.2e-5}, True, True),
        ("cpu", {**measured(0.01, 0.0), traces.LARGEST: 2e-4}, True, False),
    ],
)
def test_weights_arrive_within_the_bounds_of_a_precision(
    tmp_path: Path, kind: str, data: dict[str, float] | None, moving: bool, passed: bool
) -> None:
    trained = [(1, {**data, traces.KL: 0.0}), (2, data)] if data else []
    log_steps(tmp_path, [[(0, {}), *trained]])
    assert traces.weights_arrive(tmp_path, traces.BOUNDS[kind], moving).passed is passed


@pytest.mark.parametrize(
    ("kls", "correlations", "passed"),
    [
        ((0, 0, 0.01, 0.01), (0.9877, 0.9999, 0.9996, 0.9997), True),  # a healthy run
        ((0, 0, 0.01, 0.01), (0.9999, 0.9999, 0.9877, 0.9996), True),
        ((0, 0, 0.01, 0.01), (0.9999, 0.9999, 0.9800, 0.9504), False),  # rollouts keep using the first weights
        ((0, 0, 0.01, 0.01), (0.9999, 0.9999, float("nan"), 0.9996), False),
        ((0, 0), (0.9800, 0.9504), False),
    ],
)
def test_the_correlation_is_that_of_the_steps_with_updated_weights(
    tmp_path: Path, kls: Sequence[float], correlations: Sequence[float], passed: bool
) -> None:
    pairs = enumerate(zip(kls, correlations, strict=True), 1)
    log_steps(tmp_path, [[(0, {}), *((step, measured(kl, 3e-4, value)) for step, (kl, value) in pairs)]])
    assert traces.weights_arrive(tmp_path, traces.BOUNDS["bf16"]).passed is passed


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(MARK, str(tmp_path))
    return tmp_path


def test_what_sleep_lost_and_no_update_brought_is_named(noted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note("awake", nan=0, first=[])
    assert not traces.nothing_stays_nan(noted).passed  # nothing was lost, so nothing is shown
    for replica in "01":
        monkeypatch.setenv("VERL_REPLICA_RANK", replica)
        note("asleep", level=2, lost=50)
        note("awake", nan=0, first=[])
    assert traces.nothing_stays_nan(noted).passed
    note("awake", nan=1, first=["lm_head.weight"])
    check = traces.nothing_stays_nan(noted)
    assert not check.passed and "1 with NaN" in check.figure and "lm_head.weight" in check.figure


def test_an_update_without_an_adapter_is_found(noted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for replica in "01":
        monkeypatch.setenv("VERL_REPLICA_RANK", replica)
        for _ in range(2):
            note("received", tensors=112, adapter=True)
            note("awake", nan=0, first=[])
    check = traces.adapters_arrive(noted)
    assert check.passed and "4 weight updates, 0 without" in check.figure and "[112]" in check.figure
    note("awake", nan=0, first=[])
    assert not traces.adapters_arrive(noted).passed


def test_steps_follow_each_other_over_attempts(tmp_path: Path) -> None:
    first, second = [(step, {}) for step in range(4)], [(step, {}) for step in (3, 4)]
    log_steps(tmp_path, [first, second])
    assert traces.has_logged(tmp_path, 4) and not traces.has_logged(tmp_path, 5)
    assert traces.steps_follow(tmp_path, 4, attempts=2).passed
    assert not traces.steps_follow(tmp_path, 4, attempts=1).passed
    assert not traces.steps_follow(tmp_path, 5, attempts=2).passed
    log_steps(tmp_path, [first, [(step, {}) for step in range(1, 5)]])  # it started over
    assert not traces.steps_follow(tmp_path, 4, attempts=2).passed
    log_steps(tmp_path, [first[:2], second])
    assert not traces.steps_follow(tmp_path, 4, attempts=2).passed


def test_resumed_rollouts_are_compared_sample_by_sample(tmp_path: Path) -> None:
    rows = [{"input": prompt, "output": f"{prompt}{sample}"} for prompt in "ab" for sample in range(3)]
    write_lines(tmp_path / "rollouts" / "train" / "3.jsonl", rows)
    written = traces.rollouts_by_prompt(tmp_path, 3)
    assert written == {"a": ["a0", "a1", "a2"], "b": ["b0", "b1", "b2"]}
    assert traces.resumed_as_before(tmp_path, dict(reversed(written.items())), 3).passed
    for other in ({**written, "a": ["a1", "a0", "a2"]}, {"a": written["a"]}, {**written, "b": ["b0"]}, {}):
        assert not traces.resumed_as_before(tmp_path, other, 3).passed
    assert "4 of 6" in traces.resumed_as_before(tmp_path, {**written, "a": ["a1", "a0", "a2"]}, 3).figure


def test_greedy_validation_is_held_against_transformers(tmp_path: Path) -> None:
    (tmp_path / "model").symlink_to(NANO_BASE)
    (tmp_path / "verl.yaml").write_text("data: {max_response_length: 640}\n")
    tokenizer, model = AutoTokenizer.from_pretrained(NANO_BASE), AutoModelForCausalLM.from_pretrained(NANO_BASE)
    rows, asked = [], []
    for example in world.ranked_examples("dev", 2, 2, 0):
        messages = judge_messages("compact", example.question.question, example.question.passage, example.answers)
        ids = chat_ids(tokenizer, messages)
        written = model.generate(
            torch.tensor([ids]), do_sample=False, max_new_tokens=640, eos_token_id=stop_ids(model, tokenizer)
        )[0, len(ids) :]
        text = [tokenizer.decode(part, skip_special_tokens=True) for part in (ids, written)]
        asked.append({"prompt": messages})
        rows.append(dict(zip(("input", "output"), text, strict=True)))
    (tmp_path / "data").mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(asked), tmp_path / "data" / "val.parquet")
    write_lines(tmp_path / "rollouts" / "val" / "0.jsonl", [{**row, "output": "of step 0"} for row in rows])
    write_lines(tmp_path / "rollouts" / "val" / "10.jsonl", rows[::-1])
    assert traces.greedy_is_transformers(tmp_path).passed
    write_lines(tmp_path / "rollouts" / "val" / "10.jsonl", [rows[0], {**rows[1], "output": rows[1]["output"][:-2]}])
    check = traces.greedy_is_transformers(tmp_path)
    assert not check.passed and "1 of 2 replies" in check.figure


def test_an_exported_model_must_be_another_than_its_base(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (tmp_path / "manifest.json").write_text('{"steps": 4}')
    (model / "config.json").write_text('{"dtype": "float32"}')
    weights = load_file(NANO_BASE / "model.safetensors")
    save_file(weights, model / "model.safetensors")
    assert not traces.exported(tmp_path, NANO_BASE, exact=True).passed
    weights["model.norm.weight"] = weights["model.norm.weight"] + 1
    save_file(weights, model / "model.safetensors")
    assert traces.exported(tmp_path, NANO_BASE, exact=True).passed
    (model / "config.json").write_text('{"dtype": "bfloat16"}')
    assert not traces.exported(tmp_path, NANO_BASE, exact=True).passed
    assert traces.exported(tmp_path, NANO_BASE, exact=False).passed


def test_processes_and_shared_memory_that_stay_are_found(tmp_path: Path) -> None:
    before = all_segments()
    assert traces.nothing_is_left(tmp_path, before).passed
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(sleeper, env={**os.environ, MARK: str(tmp_path)}) as process:
        assert "1 processes" in traces.nothing_is_left(tmp_path, before).figure
        process.kill()
    left = shared_memory.SharedMemory(create=True, size=1)
    try:
        assert traces.nothing_is_left(tmp_path, before).passed  # this process has it mapped: it is in use
        left.close()
        check = traces.nothing_is_left(tmp_path, before)
        assert not check.passed and "1 segments" in check.figure
    finally:
        left.unlink()
    (tmp_path / "ray_tmp").write_text("somewhere")
    assert not traces.nothing_is_left(tmp_path, before).passed
