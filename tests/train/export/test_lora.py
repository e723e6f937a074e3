"""Checkpoints that verl's own engine writes of a model with an adapter, and the plain model exported from them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rag_zeval.errors import InputError
from rag_zeval.stages.config import load_config
from train.checkpoint_files import check_pickles
from train.export import lora
from train.model_shape import read_shape
from train.plan import plan_disk
from train.run_folder import RunFolder
from train.verl_config import build

SCRIPT = Path(__file__).with_name("write_adapter.py")
ALPHA_OVER_RANK = 32 / 8


CASES = {
    "two ranks, adapter only": (2, "true", "2"),
    "two copies": (2, "true", "1"),
    "one rank, all": (1, "false", "1"),
}


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES)
def folder(request: Any, repository: Path, nano_base: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    ranks, only, sharded_over = request.param
    run = RunFolder(tmp_path_factory.mktemp("lora"))
    target = run.checkpoint(1) / "actor"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    command += [str(SCRIPT), str(target), "checkpoints/nano-base", only, sharded_over]
    env = {**os.environ, "PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=200, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    run.export(1, str(nano_base), "compact")
    return run


@pytest.mark.parametrize(("copies", "slices"), [(1, 1), (1, 3), (3, 1), (2, 2)])
def test_an_adapter_is_read_whole_from_slices_and_copies(copies: int, slices: int, tmp_path: Path) -> None:
    """Each rank's file as FSDP2 divides a matrix of five rows; a process group without other processes."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    whole, world = torch.arange(20.0).view(5, 4), copies * slices
    (tmp_path / "fsdp_config.json").write_text(json.dumps({"world_size": world}))
    for rank in range(world):
        dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
        try:
            mesh = init_device_mesh("cpu", (copies, slices), mesh_dim_names=("ddp", "fsdp"))
            mine = whole.chunk(slices)[rank % slices].clone()
            placed = DTensor.from_local(
                mine, mesh, [Replicate(), Shard(0)], run_check=False, shape=whole.shape, stride=whole.stride()
            )
            torch.save({"q.lora_A.default.weight": placed}, tmp_path / f"model_world_size_{world}_rank_{rank}.pt")
        finally:
            dist.destroy_process_group()
    (read,) = lora.read_adapter(tmp_path).values()
    assert torch.equal(read, whole)


def test_its_files_pass_the_check_before_a_resume(folder: RunFolder) -> None:
    check_pickles(folder.checkpoint(1))


def test_the_exported_model_is_the_base_with_the_adapter_added(folder: RunFolder, nano_base: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    trained_weights = torch.load(folder.checkpoint(1) / "actor" / "weights.pt")
    weights = {name: w.half().float() if ".lora_" in name else w for name, w in trained_weights.items()}  # as exported
    exported, before = load_file(folder.model / "model.safetensors"), load_file(nano_base / "model.safetensors")
    assert exported.keys() == before.keys()
    changed = 0
    for name, untrained in before.items():
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        if name.endswith(".weight") and f"{stem}.lora_A.default.weight" in weights:
            a, b = (weights[f"{stem}.lora_{side}.default.weight"] for side in "AB")
            assert not torch.equal(exported[name], untrained)
            torch.testing.assert_close(exported[name], untrained + ALPHA_OVER_RANK * b @ a, rtol=0, atol=1e-6)
            changed += 1
        else:
            assert torch.equal(exported[name], untrained)
    assert changed == 4 * 7  # every linear module of every layer
    assert (folder.model / "tokenizer.json").read_bytes() == (nano_base / "tokenizer.json").read_bytes()
    assert json.loads((folder.model / "rag_zeval.json").read_text())["variant"] == "compact"

    config = LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=32, target_modules="all-linear")
    trained: Any = get_peft_model(AutoModelForCausalLM.from_pretrained(nano_base), config)
    trained.load_state_dict(weights)
    ids = torch.randint(3, 1000, (2, 50), generator=torch.Generator().manual_seed(0))
    plain = AutoModelForCausalLM.from_pretrained(folder.model)(ids).logits
    # a tenth of what the adapter must change: one logit of 100,000 has been 2e-3 apart by rounding
    torch.testing.assert_close(plain, trained(ids).logits, rtol=1e-3, atol=1e-2)
    assert (plain - AutoModelForCausalLM.from_pretrained(nano_base)(ids).logits).abs().max() > 0.1


def test_the_rollout_server_gets_base_and_adapter_in_the_precision_of_training(
    folder: RunFolder, nano_base: Path
) -> None:
    served = torch.load(folder.checkpoint(1) / "actor" / "merged.pt")
    exported, before = (load_file(of / "model.safetensors") for of in (folder.model, nano_base))
    assert exported.keys() <= served.keys() <= {*exported, "lm_head.weight"}
    for name, weight in exported.items():
        assert served[name].dtype == torch.float32
        rounding = 2**-9 * (weight - before[name]).abs().max().item()  # exported adapters are in half precision
        torch.testing.assert_close(served[name], weight, rtol=0, atol=1e-6 + rounding)


def test_the_adapter_alone_makes_the_same_model(folder: RunFolder, nano_base: Path, tmp_path: Path) -> None:
    assert lora.main([str(folder.adapter), str(tmp_path / "model")]) == 0
    for path in sorted(folder.model.iterdir()):
        assert (tmp_path / "model" / path.name).read_bytes() == path.read_bytes(), path.name
    assert sum(path.stat().st_size for path in folder.adapter.iterdir()) < 1e6


def test_adapters_of_runs_one_after_the_other_are_added_in_turn(
    folder: RunFolder, nano_base: Path, tmp_path: Path
) -> None:
    assert lora.main([str(folder.adapter), str(folder.adapter), str(tmp_path / "twice")]) == 0
    before, once, twice = (load_file(of / "model.safetensors") for of in (nano_base, folder.model, tmp_path / "twice"))
    for name, weight in before.items():
        torch.testing.assert_close(twice[name] - weight, 2 * (once[name] - weight), rtol=0, atol=2e-6)


def test_what_is_no_adapter_or_lost_its_base_is_one_line(
    folder: RunFolder, nano_base: Path, tmp_path: Path, refusal: Any
) -> None:
    lost = tmp_path / "lost"
    shutil.copytree(folder.adapter, lost)
    config = json.loads((lost / "adapter_config.json").read_text())
    (lost / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": "nowhere/base"}))
    for adapter, said in ((nano_base, "no adapter here"), (lost, "nowhere/base")):
        assert said in refusal(lora.main, [str(adapter), str(tmp_path / "out")], first=False)
    assert not (tmp_path / "out").exists()


def test_the_checkpoint_is_as_large_as_planned(folder: RunFolder, repository: Path, request: Any) -> None:
    ranks, only, sharded_over = request.node.callspec.params["folder"]
    actor = folder.checkpoint(1) / "actor"
    words = ["profile=single", "verl.actor_rollout_ref.model.lora_rank=8", f"verl.trainer.n_gpus_per_node={ranks}"]
    words += [f"verl.actor_rollout_ref.actor.checkpoint.save_lora_only={only}"]
    words += [f"verl.actor_rollout_ref.actor.fsdp_config.fsdp_size={sharded_over}"]
    shape, _ = read_shape(str(repository / "checkpoints" / "nano-base"))
    assert shape is not None
    planned = plan_disk(shape, build(load_config("train", words).verl, {}), 343).contents
    assert set(planned) == {"model", "optimizer"}
    for name, pattern in (("model", "model_*.pt"), ("optimizer", "optim_*.pt")):
        size = sum(path.stat().st_size for path in actor.glob(pattern))
        assert planned[name] <= size <= 1.3 * planned[name]  # torch.save adds about a kilobyte a tensor


def test_an_adapter_of_another_base_is_refused(folder: RunFolder, repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(repository / "checkpoints" / "nano-base", other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(InputError, match=r"its adapter does not fit"):
        folder.export(1, str(other), "compact")
