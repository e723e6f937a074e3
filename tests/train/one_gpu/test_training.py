"""Training in one process: its arithmetic against definitions, and real runs of the nano judge."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, Qwen2Config

from rag_zeval.errors import InputError
from rag_zeval.judge.prompt import VARIANTS
from rag_zeval.stages.training_log import VALIDATION, read_run
from rewards.tokens import PolicyTokens
from train.curriculum import Question, build_row
from train.one_gpu import __main__ as command
from train.one_gpu import training
from train.one_gpu.training import advantages, batches, read_prompt
from train.run_folder import RunFolder


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 200))
def test_every_row_is_in_one_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    found = list(batches(lengths, budget))
    assert sorted(at for batch in found for at in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(lengths[at] for at in batch) <= budget


@given(st.lists(st.lists(st.sampled_from([-0.5, 0.0, 1.0, 1.5]), min_size=4, max_size=4), min_size=1, max_size=5))
def test_advantages_have_mean_0_and_deviation_1_or_are_0(rewards: list[list[float]]) -> None:
    for had, values in zip(rewards, advantages(torch.tensor(rewards)), strict=True):
        if len(set(had)) == 1:
            assert values.tolist() == [0] * 4
        else:
            assert float(values.mean()) == pytest.approx(0, abs=1e-5)
            assert float(values.std()) == pytest.approx(1, abs=1e-4)
            assert torch.equal(values.argsort(stable=True), torch.tensor(had).argsort(stable=True))


@pytest.mark.parametrize("spread", [0.1, 1.5])
def test_the_gradient_is_that_of_verl(spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """spread: deviation of new from old log-probabilities; 1.5 reaches every clip of verl's loss."""
    import numpy
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, compute_policy_loss_vanilla
    from verl.workers.config import ActorConfig

    torch.manual_seed(0)
    policy = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=40,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            initializer_range=0.3,
        )
    )
    rewards = torch.tensor([[1.5, 0.0, -0.5, 0.0], [1.2, 1.2, 1.2, 1.2], [1.0, 0.0, -0.5, -0.5]])
    n, temperature = 4, 0.9
    prompts = [torch.randint(1, 40, (3 + at // n,)).tolist() for at in range(12)]
    replies = [torch.randint(1, 40, (2 + at % 7,)).tolist() for at in range(12)]
    mask = pad_sequence([torch.ones(len(reply)) for reply in replies], batch_first=True)

    def log_probs(prompt: list[int], reply: list[int]) -> torch.Tensor:
        logits = policy(torch.tensor([prompt + reply])).logits[0, len(prompt) - 1 : -1]
        chosen: torch.Tensor = (logits / temperature).log_softmax(-1)[range(len(reply)), reply]
        return chosen

    new = pad_sequence([log_probs(*row) for row in zip(prompts, replies, strict=True)], batch_first=True)
    old = new.detach() + spread * torch.randn(new.shape)
    scores = torch.zeros_like(mask)
    scores[:, 0] = rewards.flatten()
    advantage, _ = compute_grpo_outcome_advantage(scores, mask, numpy.arange(12) // n)
    config = ActorConfig(strategy="fsdp", rollout_n=n, ppo_mini_batch_size=3, use_dynamic_bsz=True)
    loss, seen = compute_policy_loss_vanilla(old, new, advantage, mask, config=config)
    assert (seen["actor/pg_clipfrac_lower"] > 0) == (spread > 1)
    (loss * mask.sum() / mask[advantage.any(1)].sum()).backward()  # the documented difference
    theirs = {name: weight.grad for name, weight in policy.named_parameters()}

    monkeypatch.setattr(training, "MAX_NORM", 1e9)
    run = object.__new__(training.Training)
    run.policy, run.device, run.optimizer = policy, torch.device("cpu"), torch.optim.AdamW(policy.parameters(), lr=0.0)
    run.settings = SimpleNamespace(  # type: ignore[assignment]
        batch_tokens=40, temperature=temperature, learning_rate=0.0, warmup_steps=1, steps=1
    )
    drawn = [(reply, row[: len(reply)].tolist()) for reply, row in zip(replies, old, strict=True)]
    asked: Any = [SimpleNamespace(ids=prompt) for prompt in prompts]
    run.update(asked, drawn, advantages(rewards).flatten().tolist(), 1)
    for name, weight in policy.named_parameters():
        torch.testing.assert_close(weight.grad, theirs[name], atol=1e-5, rtol=1e-4, msg=name)


def test_a_gradient_that_is_not_finite_changes_no_weight(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    policy = torch.nn.Linear(2, 1)
    before = [weight.detach().clone() for weight in policy.parameters()]
    run = object.__new__(training.Training)
    run.policy, run.device, run.optimizer = policy, torch.device("cpu"), torch.optim.AdamW(policy.parameters(), lr=1.0)
    run.settings = SimpleNamespace(  # type: ignore[assignment]
        batch_tokens=40, temperature=1.0, learning_rate=1.0, warmup_steps=1, steps=2
    )
    asked: Any = [SimpleNamespace(ids=[1])] * 2
    for values in (math.inf, 1.0):
        monkeypatch.setattr(training, "reply_log_probs", lambda *_, by=values: policy(torch.ones(2, 2))[:, 0] * by)
        norm = run.update(asked, [([1], [0.0]), ([2], [0.0])], [1.0, -0.5], 1)
        changed = any(not torch.equal(*pair) for pair in zip(policy.parameters(), before, strict=True))
        assert changed == math.isfinite(norm) == (values == 1)
    assert capsys.readouterr().err.count("is not finite") == 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_reply_to_any_prompt_variant_is_scored(variant: str, nano_base: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(nano_base)
    tokens = PolicyTokens(tokenizer)
    row = build_row(Question("1", "q?", "It opens.", {0.0: "It opens.", -1.0: "It sings."}), [0.0, -1.0], variant)
    assert read_prompt(row, tokenizer, tokens).score("no trajectory", tokens)["format"] == 0


@pytest.fixture(scope="module")
def words(nano_responses: Callable[..., str]) -> list[str]:
    """A run of 2 steps, but for where it goes."""
    rows = f"{{responses: {nano_responses(12)}, k: 2, turns: 1, max_prompt_tokens: 400, max_rule_tokens: null, "
    rows += "single_answer_every: null}"
    words = ["profile=nano", f"rows=[{rows}]", "validation={questions: 3, sets: 2}", "steps=2", "validate_every=1"]
    return [*words, "prompts=4", "rollouts=4", "warmup_steps=1", "learning_rate=1e-4", "max_reply_tokens=400"]


@pytest.fixture(scope="module")
def trained(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one-gpu") / "run"
    assert command.main([*words, f"out_dir={folder}"]) == 0
    return folder


def test_a_run_leaves_the_policy_that_validated_best(trained: Path, nano_base: Path) -> None:
    from safetensors.torch import load_file

    steps = read_run(trained)
    assert sorted(steps) == [0, 1, 2]
    scores = {step: data["val/half_ties"] for step, data in steps.items() if "val/half_ties" in data}
    assert sorted(scores) == [0, 1, 2]
    assert all(VALIDATION in steps[step] for step in scores)
    assert all(steps[step]["actor/grad_norm"] > 0 for step in (1, 2))
    weights, before = (load_file(of / "model.safetensors") for of in (trained / "model", nano_base))
    changed = any(not torch.equal(weights[name], before[name]) for name in weights)
    assert changed == (max(scores, key=scores.__getitem__) > 0)  # a later step must be better to be kept
    card = json.loads((trained / "model" / "rag_zeval.json").read_text())
    assert card == json.loads((nano_base / "rag_zeval.json").read_text())
    assert not (trained / "state.pt").exists()


def test_the_rollouts_of_a_run_can_be_audited(trained: Path) -> None:
    from experiments.reward_audit.replies import of_run

    audited, steps = of_run(trained, "train"), read_run(trained)
    for step, side in ((1, audited.before), (2, audited.after)):
        assert not side.damaged
        assert len(side.replies) == 16 and len({reply.prompt for reply in side.replies}) == 4
        read = sum(reply.trajectory is not None for reply in side.replies)
        assert read / 16 == pytest.approx(steps[step]["reward_extra/format/mean"])


def test_a_run_that_is_whole_is_left_alone(trained: Path, words: list[str], capsys: Any) -> None:
    log = (trained / "metrics.jsonl").read_bytes()
    (trained / "state.pt").write_bytes(b"left by a kill after the export")
    assert command.main([*words, f"out_dir={trained}"]) == 0
    assert "trained before" in capsys.readouterr().out
    assert (trained / "metrics.jsonl").read_bytes() == log and not (trained / "state.pt").exists()


def test_a_killed_run_ends_as_one_that_was_not(trained: Path, words: list[str], tmp_path: Path) -> None:
    run = [sys.executable, "-m", "train.one_gpu", *words, f"out_dir={tmp_path}"]
    process = subprocess.Popen(run, stdout=subprocess.DEVNULL)
    state = tmp_path / "state.pt"
    deadline = time.monotonic() + 600
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert state.exists() and not (tmp_path / "model").exists()
    assert command.main([*words, f"out_dir={tmp_path}"]) == 0
    ours, theirs = read_run(tmp_path), read_run(trained)
    for step, data in theirs.items():
        wanted = {name: value for name, value in data.items() if not name.startswith("timing")}
        assert ours[step] == pytest.approx({**ours[step], **wanted}, rel=1e-3), step


def test_other_settings_and_rows_are_refused(
    trained: Path, words: list[str], tmp_path: Path, refusal: Any, capsys: Any
) -> None:
    other = tmp_path / "run"
    shutil.copytree(trained, other, ignore=shutil.ignore_patterns("model"))
    told = refusal(command.main, [*words, f"out_dir={other}", "seed=5"])
    assert "holds a run with config.seed=1, not 5" in told
    for word, said in (("rollouts=1", "rollouts: must be 2 or more"), ("warmup_steps=3", "=3, but the run ends after")):
        assert said in refusal(command.main, [*words, f"out_dir={tmp_path}/x", word])
    assert not (tmp_path / "x").exists()
    answers = Path(re.findall(r"responses: ([^,]+)", " ".join(words))[0])
    before = answers.read_text()
    try:
        answers.write_text(before.replace("the", "a", 1))
        assert command.main([*words, f"out_dir={other}"]) == 2
        assert "holds a run with rows=" in capsys.readouterr().err
    finally:
        answers.write_text(before)
    missing = ["profile=nano", f"out_dir={tmp_path}/x", "rows=[{responses: none.jsonl, k: 2, turns: 1, "]
    missing[-1] += "max_prompt_tokens: 9, max_rule_tokens: null, single_answer_every: null}]"
    assert "none.jsonl: no responses found" in refusal(command.main, missing)
    assert not (tmp_path / "x" / "run.json").exists()


def test_two_runs_do_not_share_a_folder(words: list[str], tmp_path: Path, refusal: Any) -> None:
    with RunFolder(tmp_path).locked():
        assert "another training run is using this folder" in refusal(command.main, [*words, f"out_dir={tmp_path}"])
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    (tmp_path / "metrics.jsonl").write_text("mine")
    assert "holds metrics.jsonl, but no run.json" in refusal(command.main, [*words, f"out_dir={tmp_path}"])
    assert (tmp_path / "metrics.jsonl").read_text() == "mine"


def test_answers_at_two_alphas_are_enough_and_their_path_is_taken_as_it_is(
    nano_responses: Callable[..., str], tmp_path: Path
) -> None:
    from train.one_gpu.rows import RowKind, Validation, build_rows

    folder = tmp_path / "run #1 [old]"
    folder.mkdir()
    path = str(shutil.copy(nano_responses(12, 2), folder))
    kind = RowKind(responses=path, k=2, turns=1, max_prompt_tokens=400, max_rule_tokens=None, single_answer_every=None)
    train, val = build_rows("nano", [kind], Validation(questions=3, sets=2))
    assert (len(train), len(val)) == (9, 3)


def test_another_kind_of_model_is_refused_before_the_rows_are_built(
    words: list[str], tmp_path: Path, refusal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Qwen2Config().save_pretrained(tmp_path / "base")
    (tmp_path / "base" / "model.safetensors").touch()
    load = command.load_config
    monkeypatch.setattr(
        command,
        "load_config",
        lambda *of: load(*of) if of[0] != "train" else OmegaConf.merge(load(*of), {"base_model": f"{tmp_path}/base"}),
    )
    monkeypatch.setattr("train.one_gpu.rows.build_rows", lambda *_: pytest.fail("rows were built"))
    told = refusal(command.main, [*words, f"out_dir={tmp_path / 'run'}"])
    assert "decodes plain Llamas only; this model's type is 'qwen2'" in told


def test_verl_need_not_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from train.one_gpu.rows import RowKind

    def missing(*_: object) -> Any:
        raise InputError("verl is not installed")

    monkeypatch.setattr("train.verl_config.schema", missing)
    kind = RowKind(responses="x", k=2, turns=1, max_prompt_tokens=9, max_rule_tokens=None, single_answer_every=None)
    for profile in ("nano", "small"):
        assert kind.train_settings(profile, 1).verl.data.max_prompt_length == 9


def test_a_profile_with_another_reward_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from train.one_gpu import rows

    load = rows.load_config
    monkeypatch.setattr(rows, "load_config", lambda stage, words: load(stage, [*words, "accuracy=best-only"]))
    kind = rows.RowKind(
        responses="x", k=2, turns=1, max_prompt_tokens=9, max_rule_tokens=None, single_answer_every=None
    )
    with pytest.raises(InputError, match=r"train\.accuracy=best-only: train\.one_gpu has only all-pairs"):
        kind.train_settings("nano", 1)


def test_validation_questions_are_in_no_row(words: list[str]) -> None:
    from rag_zeval.stages.config import check_settings, load_config
    from train.one_gpu.rows import build_rows
    from train.one_gpu.settings import OneGPUSettings

    settings = check_settings(OneGPUSettings, load_config("one_gpu", words))
    train, val = build_rows("nano", settings.rows * 2, settings.validation)
    ids = [{row["extra_info"]["id"] for row in rows} for rows in (train, val)]
    assert len(ids[1]) == 3 and len(val) == 6
    assert ids[0] and not ids[0] & ids[1]
