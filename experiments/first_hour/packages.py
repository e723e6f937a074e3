"""Checks that the tested versions are installed, and that torch and flash-attn compute correctly on these GPUs."""

import torch
from packaging.requirements import Requirement
from packaging.version import Version

from experiments.first_hour.scene import CheckFailed, Finding, Scene, conclude
from rag_zeval.stages.versions import installed
from train.launch import ROOT

LOCKS = ROOT / "requirements"
SHOWN = 5
ROWS = 64
CLOSE = 1e-3  # tolerance of log-probabilities: computed in bf16 and not in fp32, they are off by some hundredths
CLOSE_BF16 = 0.05  # tolerance of attention's outputs, which are numbers around 1 in bf16


def packages(scene: Scene) -> None:
    """Compare the installed packages with the lock file.

    Raises CheckFailed naming the first that are missing or have another version.
    """
    lock = LOCKS / ("gpu.txt" if scene.gpus else "nano.txt")
    lines = (line.partition("#")[0].strip() for line in lock.read_text(encoding="utf-8").splitlines())
    listed = map(Requirement, filter(None, lines))
    locked = [wanted for wanted in listed if wanted.marker is None or wanted.marker.evaluate()]
    versions, wrong = installed(wanted.name for wanted in locked), []
    for wanted in locked:
        there = versions.get(wanted.name)
        found = there and Version(there).public  # without torch's suffix, + and the CUDA version
        if found is None or not wanted.specifier.contains(found, prereleases=True):
            wrong.append(f"{wanted.name} {found or 'missing'} (locked{wanted.specifier})")
    print(f"{len(locked) - len(wrong)} of {len(locked)} packages are as in {lock.name}")
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise CheckFailed(f"not as in {lock.name}: {', '.join(wrong[:SHOWN])}{more}; `make env` installs the lock")


def kernels(scene: Scene) -> None:
    """Multiply matrices on each GPU, and compare flash-attn's attention and cross-entropy with plain torch in fp32."""
    scene.need_gpu()
    found = []
    for device in range(scene.gpus):
        left = torch.randn(512, 512, device=f"cuda:{device}")
        right = torch.allclose(left @ left, (left.double() @ left.double()).float(), atol=1.0)  # room for TF32
        found.append(Finding(f"GPU {device} multiplies", right, torch.cuda.get_device_name(device)))
    shape = scene.shape()
    conclude([*found, log_probabilities(shape.vocab), attention(shape.head_dim)])


def log_probabilities(vocabulary: int) -> Finding:
    """Check that verl computes log-probabilities of bf16 logits in fp32, as only flash-attn's kernel does."""
    from verl.utils import torch_functional

    if not torch_functional.FLAH_ATTN_CROSS_ENTROPY_LOSS_AVAILABLE:
        raise CheckFailed("verl finds no cross-entropy of flash-attn: it would compute log-probabilities in bf16")
    logits = (4 * torch.randn(ROWS, vocabulary, device="cuda")).bfloat16()
    labels = torch.randint(vocabulary, (ROWS,), device="cuda")
    wanted = logits.float().log_softmax(-1).gather(-1, labels[:, None])[:, 0]
    found = torch_functional.logprobs_from_logits(logits.clone(), labels)
    return close(f"flash-attn's log-probabilities of {vocabulary} logits", found, wanted, CLOSE)


def attention(head: int) -> Finding:
    """Check that flash-attn's attention works on this GPU with this size of a head."""
    from flash_attn import flash_attn_func

    query, key, value = torch.randn(3, 1, ROWS, 4, head, device="cuda").bfloat16()
    found = flash_attn_func(query, key, value, causal=True)
    plain = [part.float().transpose(1, 2) for part in (query, key, value)]
    wanted = torch.nn.functional.scaled_dot_product_attention(plain[0], plain[1], plain[2], is_causal=True)
    return close(f"flash-attn's attention with heads of {head}", found, wanted.transpose(1, 2), CLOSE_BF16)


def close(what: str, found: torch.Tensor, wanted: torch.Tensor, most: float) -> Finding:
    apart = (found.float() - wanted).abs().max().item()
    return Finding(what, apart <= most, f"{apart:.1e} from fp32 at most ({most:g} allowed)")
