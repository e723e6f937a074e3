"""`make train DRY_RUN=1`: the plan that it prints, and the steps, disk and memory in it, against other sources."""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from rag_zeval.errors import InputError
from rag_zeval.judge.prompt import judge_messages
from rag_zeval.stages import world
from rag_zeval.stages.config import load_config
from train.__main__ import main
from train.gpu_memory import GIB, OUTSIDE, Moments, Setup, memory_needs, misfit, read_setup
from train.model_shape import KEPT, Shape, read_shape, shape_of
from train.plan import count_steps, describe_steps, plan_disk
from train.settings import Stage
from train.sft.__main__ import main as sft_main
from train.verl_config import build


def composed(profile: str, *words: str) -> Any:
    """verl's configuration of a profile."""
    return build(load_config("train", [f"profile={profile}", *words]).verl, {})


def qwen(size: str) -> Shape:
    shape, where = read_shape(f"models/Qwen2.5-{size}-Instruct")
    assert shape is not None and where == "train/model_shapes.json"
    return shape


def verl_of(batch: int = 32, wanted: int | None = None) -> Any:
    trainer = {"total_epochs": 1, "total_training_steps": wanted}
    verl = {"data": {"train_batch_size": batch}, "trainer": trainer, "actor_rollout_ref": {"rollout": {"n": 8}}}
    return OmegaConf.create(verl)


@given(st.integers(1, 40), st.lists(st.integers(1, 200), min_size=1, max_size=3))
def test_a_stage_begins_in_the_step_that_has_its_first_row(batch: int, rows: list[int]) -> None:
    stages = [Stage(at + 2, count) for at, count in enumerate(rows)]
    order = [stage.k for stage in stages for _ in range(stage.rows or 0)]
    steps = [order[at : at + batch] for at in range(0, len(order), batch)]
    if len(order) < batch:
        with pytest.raises(InputError, match=f"{len(order)} training rows do not fill one step"):
            describe_steps(verl_of(batch), stages)
        return
    said = describe_steps(verl_of(batch), stages)
    assert said.startswith(f"{sum(len(step) == batch for step in steps)} steps of {batch} ")
    for stage in stages:
        first = next(at for at, step in enumerate(steps, 1) if stage.k in step)
        assert f"K={stage.k} from step {first}" in said.split(": ")[1].split(", ")
    shown = re.findall(r"K=(\d)", said)
    assert all(k != following for k, following in itertools.pairwise(shown))


def test_all_rows_may_be_trained_on() -> None:
    assert count_steps(verl_of(wanted=3), 100) == 3


DTYPE = "verl.actor_rollout_ref.actor.fsdp_config.model_dtype"
SAVED = "verl.actor_rollout_ref.actor.checkpoint.save_contents"


@pytest.mark.parametrize(
    ("words", "contents", "checkpoints", "best"),
    [
        ([], {"model": 4, "optimizer": 8, "hf_model": 4}, 3, 4),
        ([f"{SAVED}=[hf_model]"], {"hf_model": 4}, 3, 4),
        ([f"{DTYPE}=bf16"], {"model": 2, "optimizer": 4, "hf_model": 2}, 3, 2),
        (["verl.trainer.save_freq=200"], {"model": 4, "optimizer": 8, "hf_model": 4}, 2, 4),  # steps 200 and 343
        (["verl.trainer.max_actor_ckpt_to_keep=null"], {"model": 4, "optimizer": 8, "hf_model": 4}, 14, 0),
    ],
)
def test_disk_of_a_7b_by_bytes_a_parameter(
    words: list[str], contents: dict[str, int], checkpoints: int, best: int
) -> None:
    """The model is as large as a checkpoint's weights; those of the best step stand beside, if not all are kept."""
    shape, verl = qwen("7B"), composed("paper", *words)
    last, kept = (plan_disk(shape, verl, 343, export) for export in ("last", "best"))
    assert last.contents == {name: float(size * 7_615_616_512) for name, size in contents.items()}
    assert (last.checkpoints, last.export) == (checkpoints, float(contents["hf_model"] * 7_615_616_512))
    assert last.checkpoint == sum(contents.values()) * 7_615_616_512 and last.best == 0
    assert kept.best == best * 7_615_616_512 and last.total is not None and kept.total == last.total + kept.best


def test_without_a_number_of_steps_the_checkpoints_kept_are_known_all_the_same() -> None:
    shape, verl = qwen("1.5B"), composed("single")
    disk = plan_disk(shape, verl, None, "best")
    adapter = {"model": 36_929_536 * 4, "optimizer": 36_929_536 * 8}
    assert (disk.checkpoints, disk.contents, disk.best) == (3, adapter, adapter["model"])
    assert disk.export == 1_543_714_304 * 4
    verl.trainer.max_actor_ckpt_to_keep = None
    assert plan_disk(shape, verl, None).checkpoints is None


QWEN = {"7B": 7_615_616_512, "1.5B": 1_543_714_304}
TINY = {
    "model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "vocab_size": 10,
}  # fmt: skip
TINY_SHAPE = shape_of(TINY, "")


def model_of(config: dict[str, Any]) -> Any:
    own = {key: value for key, value in config.items() if key not in ("model_type", "source")}
    if own.get("head_dim", 0) is None and config["model_type"] == "qwen2":
        del own["head_dim"]  # which this class of transformers takes for a number
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(config["model_type"], **own))


def count(model: Any, trained: bool = False) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trained)


@pytest.mark.parametrize("size", QWEN)
def test_the_kept_shapes_have_the_parameters_of_the_published_models_and_of_their_adapters(size: str) -> None:
    kept = json.loads(KEPT.read_text())[f"Qwen2.5-{size}-Instruct"]
    assert kept["source"].startswith(f"config.json of Qwen/Qwen2.5-{size}-Instruct")
    assert qwen(size).parameters == count(model_of(kept)) == QWEN[size]
    for modules in ("all-linear", ["q_proj", "v_proj"]):
        lora = LoraConfig(task_type="CAUSAL_LM", r=32, target_modules=modules)
        model = get_peft_model(model_of(kept), lora, low_cpu_mem_usage=True)
        assert qwen(size).adapter(32, modules) == count(model, trained=True)


shapes = st.fixed_dictionaries(
    {
        "model_type": st.sampled_from(["llama", "qwen2"]),
        "hidden_size": st.sampled_from([8, 16, 24]),
        "intermediate_size": st.integers(1, 40),
        "num_hidden_layers": st.integers(1, 3),
        "num_attention_heads": st.just(4),
        "num_key_value_heads": st.sampled_from([1, 2, 4]),
        "vocab_size": st.integers(1, 50),
        "tie_word_embeddings": st.booleans(),
    },
    optional={"head_dim": st.sampled_from([2, 8, None]), "attention_bias": st.booleans(), "mlp_bias": st.booleans()},
)


@given(shapes)
@settings(max_examples=40)
def test_any_shape_of_the_families_is_counted_as_transformers_does(config: dict[str, Any]) -> None:
    model, shape = model_of(config), shape_of(config, "here")
    assert shape.parameters == count(model)
    assert shape.layer == count(model.model.layers[0])


def test_a_folder_says_its_own_shape(nano_base: Path, tmp_path: Path) -> None:
    shape, where = read_shape(str(nano_base))
    assert shape is not None and where == str(nano_base / "config.json")
    assert shape.parameters == count(AutoModelForCausalLM.from_pretrained(nano_base))
    named = tmp_path / "Qwen2.5-7B-Instruct"  # what is there counts, whatever its name
    named.mkdir()
    (named / "config.json").write_text(json.dumps(TINY))
    assert read_shape(str(named)) == (TINY_SHAPE, str(named / "config.json"))


def test_a_model_of_another_family_has_no_shape(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    shape, why = read_shape(str(tmp_path))
    assert shape is None and "model_type=mamba" in why


@pytest.mark.parametrize("size", ["8", 0])
def test_a_size_that_is_none_is_named_with_its_field(size: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**TINY, "hidden_size": size}))
    with pytest.raises(InputError, match=r"config\.json: field 'hidden_size' must be a whole number above 0, found "):
        read_shape(str(tmp_path))


ACTOR, FSDP = "verl.actor_rollout_ref.actor", "verl.actor_rollout_ref.actor.fsdp_config"
ROLLOUT, MODEL = "verl.actor_rollout_ref.rollout", "verl.actor_rollout_ref.model"
OFFLOAD = [f"{FSDP}.param_offload=true", f"{FSDP}.optimizer_offload=true"]
SMALL = ["verl.data.train_batch_size=2", f"{ROLLOUT}.n=2", "verl.trainer.n_gpus_per_node=2",
         "verl.data.max_prompt_length=30", "verl.data.max_response_length=70",
         f"{ACTOR}.ppo_max_token_len_per_gpu=100"]  # fmt: skip
COMPOSED = composed("paper")  # the property below alone sets its keys
LENGTHS = ["verl.data.max_prompt_length=512", "verl.data.max_response_length=1024", f"{ROLLOUT}.max_model_len=1536"]


def setup_of(*words: str, profile: str = "paper") -> Setup:
    return read_setup(composed(profile, *words))


def tiny_needs(*words: str) -> Moments:
    """Without the parts that are 0."""
    needs = memory_needs(TINY_SHAPE, setup_of(*SMALL, *words), 1000)
    return {moment: {name: size for name, size in parts.items() if size} for moment, parts in needs.items()}


def test_a_tiny_shape_by_hand() -> None:
    """h=8, i=12, 2 layers, 2 heads of 4 over 1: q 64, k 32, v 32, o 64, MLP 3 x 96, norms 16: 496 a layer.

    With embedding and head of 80 each and the last norm: 2 x 496 + 8 + 160 = 1160 parameters, over 2 GPUs; 100 tokens.
    """
    assert (TINY_SHAPE.layer, TINY_SHAPE.parameters) == (496, 1160)
    needs = tiny_needs()
    states = {"weights": 2320, "gradients": 2320, "states": 4640}  # 1160 x 4 / 2
    vllm = {"vLLM weights": 2320, "KV cache": 600 * GIB - 2320}
    assert needs["rollout"] == {"weights": 2320, "states": 4640, **vllm, "CUDA": OUTSIDE}
    assert needs["optimizer"] == {**states, "states": 6960, "CUDA": OUTSIDE}
    assert needs["update"] == {
        **states,
        "gathered": 2 * (160 + 3 * 496) + 4 * (80 + 496),
        # inputs of 2 layers, one computed again (10 x 8 + 2 x 4 + 4 x 12 = 136 numbers a token), 3 x 12 more at work
        "activations": 2 * (2 * 8 + 136 + 36) * 100,
        "logits": 2 * 10 * 100,
        "CUDA": OUTSIDE,
    }
    way = 2 * GIB + 4 * 80
    assert needs["sync"] == {
        "weights": 2320, "states": 4640, "vLLM weights": 2320, "on their way": way, "CUDA": OUTSIDE
    }  # fmt: skip


def test_a_tiny_adapter_by_hand() -> None:
    """Rank 2: q 2 x 16, k 2 x 12, v 2 x 12, o 2 x 16, MLP 3 x 2 x 20 in each of 2 layers: 464 trained parameters."""
    needs = tiny_needs(f"{MODEL}.lora_rank=2")
    assert needs["rollout"]["weights"] == (1160 + 464) * 2 and needs["rollout"]["states"] == 464 * 4
    assert needs["update"]["gradients"] == 464 * 2 and needs["sync"]["on their way"] == 2 * GIB
    assert not setup_of(f"{MODEL}.lora_rank=2").reference and setup_of().reference


def test_what_is_offloaded_is_on_the_gpu_only_when_it_works() -> None:
    needs = tiny_needs(*OFFLOAD)
    for moment, there in (("rollout", False), ("update", True), ("optimizer", True), ("sync", False)):
        assert ({"weights", "states"} <= needs[moment].keys()) == there
    assert "weights" in tiny_needs(*OFFLOAD, f"{MODEL}.lora_rank=2")["sync"]
    policy = tiny_needs(f"{FSDP}.offload_policy=true")
    assert not any({"weights", "gradients", "states"} & parts.keys() for parts in policy.values())
    awake = tiny_needs(f"{ROLLOUT}.free_cache_engine=false")
    assert all({"vLLM weights", "KV cache"} <= parts.keys() for parts in awake.values())


@pytest.mark.parametrize(
    ("words", "moment", "part", "times"),
    [
        ([f"{ROLLOUT}.temperature=0.7"], "update", "logits", 3),  # divided into a second tensor, and its gradient
        ([f"{MODEL}.use_fused_kernels=true"], "update", "logits", 0),
        ([f"{FSDP}.use_torch_compile=false"], "update", "logits", 3),  # the entropy's softmax and product
        ([f"{FSDP}.model_dtype=bf16"], "rollout", "weights", 0.5),
        ([f"{FSDP}.fsdp_size=1"], "rollout", "weights", 2),
        ([f"{MODEL}.enable_gradient_checkpointing=false"], "update", "activations", (2 * 136 + 36) / (16 + 136 + 36)),
        ([f"{MODEL}.enable_activation_offload=true"], "update", "activations", (136 + 36) / (16 + 136 + 36)),
    ],
)
def test_a_setting_changes_its_part(words: list[str], moment: str, part: str, times: float) -> None:
    assert tiny_needs(*words)[moment].get(part, 0) == pytest.approx(times * tiny_needs()[moment][part])


HALF, ONE, TWO = (f"{ROLLOUT}.gpu_memory_utilization=0.5", *(f"verl.trainer.n_gpus_per_node={n}" for n in (1, 2)))


@pytest.mark.parametrize(
    ("profile", "size", "gpu_gib", "words", "message"),
    [  # the first four are verl's examples/tuning, on GPUs of 80 GB
        ("paper", "7B", 80, [*OFFLOAD, *LENGTHS, HALF, TWO], None),
        ("paper", "7B", 80, [*OFFLOAD, *LENGTHS, HALF, ONE], "gpu_memory_gib=80: '"),
        (
            "paper", "7B", 80,
            [*OFFLOAD, *LENGTHS, f"{ROLLOUT}.gpu_memory_utilization=0.2", f"{MODEL}.lora_rank=32", ONE], None,
        ),
        (
            "paper", "1.5B", 80,
            [f"{ROLLOUT}.gpu_memory_utilization=0.4", "verl.data.max_prompt_length=1024", ONE], None,
        ),
        ("paper", "7B", 80, [], None),
        ("single", "1.5B", 24, [], None),
        ("paper", "7B", 24, [], "gpu_memory_gib=24: 'update' needs 35.3 GiB on each GPU .activations 8.2"),
        ("single", "7B", 24, [], "gpu_memory_gib=24: 'update' needs 4[78].. GiB on each GPU .weights 28.7"),
        (
            "single", "1.5B", 24, [f"{ROLLOUT}.gpu_memory_utilization=0.13"],
            ".*room for 6584 tokens, less than one row of .*max_model_len=16384",
        ),
    ],
)  # fmt: skip
def test_what_fits_passes_and_what_cannot_is_one_line(
    profile: str, size: str, gpu_gib: float, words: list[str], message: str | None
) -> None:
    said = misfit(qwen(size), setup_of(*words, profile=profile), gpu_gib)
    assert said is None if message is None else said is not None and re.match(message, said) and "\n" not in said


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (lambda: setup_of(f"{ROLLOUT}.dtype=auto"), r"rollout\.dtype=auto: there is fp32"),
        (
            lambda: plan_disk(TINY_SHAPE, composed("nano", f"{FSDP}.model_dtype=fp8"), 9),
            r"^verl\.actor_rollout_ref\.actor\.fsdp_config\.model_dtype=fp8: there is fp32",
        ),
        (lambda: TINY_SHAPE.adapter(4, ["qkv"]), "no linear module 'qkv'; there is q_proj"),
        (lambda: count_steps(verl_of(wanted=4), 100), "total_training_steps=4: the rows are enough for 3 steps"),
    ],
)
def test_what_has_no_plan_is_refused(plan: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan()


@given(st.integers(1, 16), st.integers(100, 20_000), st.sampled_from([0, 8]), st.integers(1, 64), st.booleans())
def test_more_gpus_shorter_rows_and_offload_never_need_more(
    gpus: int, longest: int, rank: int, batch: int, offload: bool
) -> None:
    def needs(gpus: int, longest: int, offload: bool) -> dict[str, float]:
        verl, actor = COMPOSED, COMPOSED.actor_rollout_ref.actor
        verl.trainer.n_gpus_per_node, verl.data.train_batch_size = gpus, batch
        verl.data.max_prompt_length = actor.ppo_max_token_len_per_gpu = longest
        verl.actor_rollout_ref.model.lora_rank = rank
        actor.fsdp_config.param_offload = actor.fsdp_config.optimizer_offload = offload
        return {moment: sum(parts.values()) for moment, parts in memory_needs(TINY_SHAPE, read_setup(verl), 80).items()}

    before = needs(gpus, longest, offload)
    for after in (needs(gpus + 1, longest, offload), needs(gpus, longest // 2, offload), needs(gpus, longest, True)):
        assert all(after[moment] <= before[moment] for moment in before)


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
    assert line("disk", shown).startswith(disk) and "lr_warmup_steps" not in shown


def test_the_documented_plan_is_printed_with_neither_model_nor_answers(repository: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "train", "profile=paper", "dry_run=true", f"out_dir={tmp_path / 'out'}"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr == ""
    section = (repository / "docs" / "paper-scale.md").read_text().split("## The plan\n")[1]
    documented = section.split("```\n")[1].splitlines()
    printed = [line for line in done.stdout.splitlines() if not line.startswith("warning")]  # of this machine's disk
    assert documented[:-1] == printed[:-1]
    assert printed[-1].startswith(f"{documented[-1]}; free here ")
    assert len(printed) <= 30 and max(map(len, printed)) <= 120  # one screen
    assert not list(tmp_path.iterdir())


FEW = ["stages=[{k: 4, rows: null}]", "validation=[{k: 4, rows: 2}]", "verl.data.train_batch_size=4",
         "verl.actor_rollout_ref.actor.ppo_mini_batch_size=4"]  # fmt: skip


def test_with_answers_and_a_model_it_says_what_is_expected(
    planned: Planned, nano_responses: Callable[..., str], nano_base: Path
) -> None:
    words = [*FEW, f"responses={nano_responses(12)}"]
    code, shown, _ = planned("nano", *words, f"base_model={nano_base}")
    assert code == 0
    assert line("steps", shown).startswith("2 steps of 4 prompts x 8 rollouts: K=4 from step 1")  # 10 of 12 questions
    assert "optim.lr_warmup_steps=2, but the run ends after step 2: the full learning rate is never" in shown
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
        ("single", [*FEW, "responses=TWELVE"], "steps", "their tokens are unknown without the model", "expected"),
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


def test_a_path_that_is_not_there_is_named_in_the_plan(planned: Planned, tmp_path: Path, nano_base: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY))  # but no weights
    for base, said in {"models/nowhere": "there is no such folder", str(tmp_path): "no weights in this folder"}.items():
        code, shown, _ = planned("nano", f"base_model={base}", "responses=nowhere.jsonl")
        here, answers = [line for line in shown.splitlines() if line.startswith("not here ")]
        assert code == 0 and base in here and said in here
        assert answers == "not here    responses=nowhere.jsonl: there is no such file"
    assert "base_model=" not in planned("nano", f"base_model={nano_base}", "responses=nowhere.jsonl")[1]


def test_rows_that_the_base_has_no_window_for_are_refused_before_anything_starts(
    planned: Planned, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"base_model={tmp_path}", "responses=nowhere.jsonl"]
    for window, code in ((16384, 0), ("wide", 2), (16383, 2)):
        (tmp_path / "config.json").write_text(json.dumps({**TINY, "max_position_embeddings": window}))
        assert planned("paper", *words)[0] == code
    said = "max_position_embeddings=16383, but 16384 tokens are needed: lower verl.data.max_prompt_length, "
    assert said in planned("paper", *words)[2]
    assert main(["profile=paper", f"out_dir={tmp_path / 'run'}", *words]) == 2 and said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("trainer", ["train", "sft"])
def test_a_run_that_will_not_fit_onto_the_disk_is_not_started(
    trainer: str, train_command: Any, nano_responses: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Any
) -> None:
    monkeypatch.setattr("train.plan.free_bytes", lambda folder: 2**20)
    monkeypatch.setattr(f"train{'.sft' * (trainer == 'sft')}.__main__.run_verl", lambda *_: pytest.fail("it started"))
    asked = train_command(nano_responses(), tmp_path / "run")[3:]
    if trainer == "sft":
        asked = [word for word in asked if word.startswith(("profile=", "responses=", "out_dir="))]
        asked += ["rows=[{k: 4, rows: 8}]", "verl.data.train_batch_size=8"]
    said = refusal({"train": main, "sft": sft_main}[trainer], asked, first=False)
    assert f"disk: {tmp_path}/run needs up to " in said and "only 1.0 MiB are free; set another out_dir" in said
