"""Checks that tensors pass between processes: a sum over all GPUs, and new weights for the rollouts, bit for bit.

NCCL computes the sum; if NCCL does not work, it hangs. verl's own sender and receiver transfer the weights. verl 0.9.1
packs tensors into a bucket that both processes see. A tensor larger than the bucket is sent on its own by CUDA IPC.
Without CUDA IPC, verl uses shared memory. Its sender then refuses such a tensor, and the receiver waits forever
(`verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py`). So the check expects that such a tensor arrives by
CUDA IPC, and accepts a refusal through shared memory. Such tensors are common: the embedding of 7B has 2,079 MiB in
fp32, and the bucket 2,048.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch

from experiments.first_hour.processes import call, run_together
from experiments.first_hour.scene import CheckFailed, Finding, Scene, conclude
from train.leftovers import SHARED, unused

GPU_MIB, CPU_MIB = 512, 4
ROUNDS = 5
SUM_SECONDS = 180.0
MIB = 2**20
CPU_BUCKET = 1  # MiB
WEIGHTS_SECONDS = 300.0
REFUSAL = "is too large to fit in the bucket"  # error of verl's sender, through shared memory
# PYTHONWARNINGS: at its exit, the receiver warns about shared memory that the sender has already removed
ON_CPU = {"VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": "train.verl_cpu", "PYTHONWARNINGS": "ignore"}
Role = Callable[..., list[str]]  # like `call`: makes the command of a sender or receiver


def collectives(scene: Scene) -> None:
    """Run an all-reduce over all GPUs that the profile trains on; without a GPU, over two processes on the CPU."""
    processes = scene.here.verl.trainer.n_gpus_per_node if scene.gpus else 2
    backend, mib = ("nccl", GPU_MIB) if scene.gpus else ("gloo", CPU_MIB)
    print(f"{backend}, {processes} processes, {mib} MiB each")
    with tempfile.TemporaryDirectory() as folder:
        shared = {"processes": processes, "meeting": f"{folder}/meeting", "backend": backend, "mib": mib}
        commands = [call(add_up, rank=rank, **shared) for rank in range(processes)]
        print(run_together(commands, Path(folder), SUM_SECONDS)[0])


def add_up(rank: int, processes: int, meeting: str, backend: str, mib: int) -> None:
    """Take part in the all-reduce as one process, several times, and print the speed.

    Exits with an error unless every element of the result is the sum of 1..processes.
    """
    cuda = backend == "nccl"
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(
        backend, f"file://{meeting}", timeout=timedelta(seconds=SUM_SECONDS), world_size=processes, rank=rank
    )
    wanted, seconds = processes * (processes + 1) / 2, []
    for _ in range(ROUNDS):
        numbers = torch.full((mib * 2**18,), float(rank + 1), device=device)
        torch.distributed.barrier()
        begun = time.monotonic()
        torch.distributed.all_reduce(numbers)
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.monotonic() - begun)
        if not bool((numbers == wanted).all()):
            raise SystemExit(f"the sum over {processes} processes is {numbers.unique().tolist()[:3]}, not {wanted:g}")
    torch.distributed.destroy_process_group()
    moved = 2 * (processes - 1) / processes * mib * MIB  # bytes that each process sends and receives
    print(f"the sum is right in each of {ROUNDS} rounds; {moved / min(seconds) / 1e9:.2f} GB/s each way at best")


def weights(scene: Scene) -> None:
    """Transfer tensors of several types that fill the bucket more than once, then one larger than the bucket."""
    engine = scene.here.verl.actor_rollout_ref.rollout
    bucket = engine.checkpoint_engine.update_weights_bucket_megabytes if scene.gpus else CPU_BUCKET
    embedding = 4 * scene.shape().embedding
    largest = max(embedding, bucket * MIB + MIB) // 4 * 4
    print(f"bucket {bucket} MiB; embedding {embedding / MIB:.1f} MiB in fp32; largest tensor {largest / MIB:.1f} MiB")
    check_transfer(bucket, largest, shared=not scene.gpus)


def check_transfer(bucket: int, largest: int, shared: bool, role: Role = call) -> None:
    """Send tensors to another process, first without and then with one larger than the bucket.

    bucket: MiB. largest: bytes of that tensor. shared: whether verl uses shared memory; it may then refuse that tensor.
    Raises CheckFailed if a tensor arrives changed, or not at all, or if shared memory is left behind.
    """
    before = set(SHARED.glob("verl_weights_*"))
    with tempfile.TemporaryDirectory() as folder:

        def transfer(name: str, largest: int) -> str:
            words = {"address": f"ipc://{folder}/{name}", "bucket": bucket, "largest": largest}
            commands = [role(part, **words) for part in (send, receive)]
            env = {**os.environ, **ON_CPU} if shared else None
            return run_together(commands, Path(folder), WEIGHTS_SECONDS, env)[1]

        print(f"tensors that fit: {transfer('fitting', 0)}")
        try:
            print(f"with one larger than the bucket: {transfer('large', largest)}")
        except CheckFailed as refused:
            if not (shared and REFUSAL in str(refused)):
                raise
            print(
                "larger than the bucket: refused through shared memory, as verl does; CUDA IPC is its one way on GPUs"
            )
    left = sorted(path.name for path in unused(set(SHARED.glob("verl_weights_*")) - before))
    conclude([Finding(f"nothing is left in {SHARED}", not left, ", ".join(left) or "nothing")])


def tensors(bucket: int, largest: int, device: torch.device) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield names and tensors, the same in both processes. Any bit pattern may occur, also NaN.

    The first tensor has an odd number of 16-bit numbers. So the 32-bit numbers after it must be aligned.
    """
    half = bucket * MIB * 3 // 5
    sizes = {"norm": (torch.bfloat16, 7), "query": (torch.float32, half // 4), "value": (torch.float32, half // 4)}
    sizes |= {"gate": (torch.bfloat16, half // 2)}
    if largest:
        sizes["embedding"] = (torch.float32, largest // 4)
    for at, (name, (dtype, count)) in enumerate(sizes.items(), 1):
        whole = torch.int16 if dtype is torch.bfloat16 else torch.int32
        numbers = torch.arange(at, at + count, dtype=torch.int32, device=device).mul_(1_664_525)
        yield name, numbers.to(whole).view(dtype)
        del numbers


def send(address: str, bucket: int, largest: int) -> None:
    """Send the tensors with verl's sender, in the way that verl uses on this platform."""
    module, shared, device = _verl()
    asyncio.run(
        module.BucketedWeightSender(address, bucket, shared).async_send_weights(tensors(bucket, largest, device))
    )


def receive(address: str, bucket: int, largest: int) -> None:
    """Receive the tensors with verl's receiver. Exits with a line naming the first one that is missing or differs."""
    module, shared, device = _verl()
    arrived: dict[str, torch.Tensor] = {}
    module.BucketedWeightReceiver(address, device, shared).receive_weights(
        lambda weights, is_last: arrived.update((name, tensor.clone()) for name, tensor in weights)
    )
    size = sum(tensor.nbytes for tensor in arrived.values())
    for name, wanted in tensors(bucket, largest, device):
        found = arrived.pop(name, None)
        if found is None or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            raise SystemExit(f"{name} did not arrive" if found is None else f"{name} arrived as another type or shape")
        if not torch.equal(found.view(torch.uint8), wanted.view(torch.uint8)):  # as bytes: NaN does not equal itself
            raise SystemExit(f"{name} arrived with other bits than were sent")
    if arrived:
        raise SystemExit(f"{', '.join(arrived)} arrived, and was not sent")
    print(f"{size / MIB:.1f} MiB arrived, bit for bit, through {'shared memory' if shared else 'CUDA IPC'}")


def _verl() -> tuple[Any, bool, Any]:
    """Return verl's module of sender and receiver, whether they use shared memory here, and the device.

    The module is loaded from its file. Importing its package needs vLLM, but the module does not.
    """
    import verl
    from verl.utils.device import get_device_name, is_support_ipc

    path = Path(verl.__file__).parent / "workers" / "rollout" / "vllm_rollout" / "bucketed_weight_transfer.py"
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} cannot be loaded")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    name = get_device_name()
    return module, not is_support_ipc(), torch.device(name if name == "cpu" else f"{name}:0")
