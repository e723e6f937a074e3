"""Whether the processes of a training can add up a tensor over all GPUs: NCCL, which hangs where it does not work."""

from __future__ import annotations

import tempfile
import time
from datetime import timedelta
from pathlib import Path

from experiments.first_hour.processes import call, run_together
from experiments.first_hour.scene import Scene

GPU_MIB, CPU_MIB = 512, 4
ROUNDS = 5
SECONDS = 180.0


def collectives(scene: Scene) -> None:
    """All-reduce over all GPUs that the profile trains on (without one: over two processes on the CPU)."""
    processes = scene.here.verl.trainer.n_gpus_per_node if scene.gpus else 2
    backend, mib = ("nccl", GPU_MIB) if scene.gpus else ("gloo", CPU_MIB)
    print(f"{backend}, {processes} processes, {mib} MiB each")
    with tempfile.TemporaryDirectory() as folder:
        shared = {"processes": processes, "meeting": f"{folder}/meeting", "backend": backend, "mib": mib}
        print(run_together([call(add_up, rank=rank, **shared) for rank in range(processes)], Path(folder), SECONDS)[0])


def add_up(rank: int, processes: int, meeting: str, backend: str, mib: int) -> None:
    """One process: the sum of 1..processes in every place, several times over; prints its pace."""
    import torch
    import torch.distributed as dist

    cuda = backend == "nccl"
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(
        backend, f"file://{meeting}", timeout=timedelta(seconds=SECONDS), world_size=processes, rank=rank
    )
    wanted, seconds = processes * (processes + 1) / 2, []
    for _ in range(ROUNDS):
        numbers = torch.full((mib * 2**18,), float(rank + 1), device=device)
        dist.barrier()
        begun = time.monotonic()
        dist.all_reduce(numbers)
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.monotonic() - begun)
        if not bool((numbers == wanted).all()):
            raise SystemExit(f"the sum over {processes} processes is {numbers.unique().tolist()[:3]}, not {wanted:g}")
    dist.destroy_process_group()
    moved = 2 * (processes - 1) / processes * mib * 2**20  # what each process sends and gets
    print(f"the sum is right in each of {ROUNDS} rounds; {moved / min(seconds) / 1e9:.2f} GB/s each way at best")
