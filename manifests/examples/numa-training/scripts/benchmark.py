"""Data-parallel training of dense layers: how much of the GPUs' peak a step uses.

Twelve layers of 8192 x 8192 in BF16, 805 million parameters; a step computes 19.8 TFLOP on each
GPU. Gradients are reduced over the network while the backward pass runs, and what the network does
not hide makes the step longer. Without GPUs a small model is trained on CPUs, over gloo and the
claimed NICs. The last line is `MFU_RESULT` and JSON; `compare.py` reads it.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ON_GPU = torch.cuda.is_available()
CLAIMED = re.compile(r"DRA_NET_\w+_IFNAMES")  # set by the driver, for each claim and request
# Dense BF16 without sparsity, TFLOP/s, by the manufacturers' data sheets. The first match counts.
PEAKS = (
    (r"GB300|B300", 2500.0),
    (r"GB200", 2500.0),
    (r"B200", 2250.0),
    (r"H100 PCIe", 756.0),
    (r"H100 NVL", 835.0),
    (r"GH200|H200|H100", 989.0),
    (r"A100|A800", 312.0),
    (r"MI325X|MI300X", 1307.4),
)


def setting(name: str, on_gpu: int, on_cpu: int) -> int:
    """Return a setting: the variable MFU_<NAME>, else the value for this device.

    Raises:
        SystemExit: the variable is not a positive number.
    """
    text = os.environ.get(f"MFU_{name}", str(on_gpu if ON_GPU else on_cpu))
    if not text.isdigit() or int(text) == 0:
        raise SystemExit(f"MFU_{name}={text!r}: give a positive whole number, or unset it")
    return int(text)


@dataclass(frozen=True)
class Settings:
    """What is trained: the story's model on GPUs, one of 393,216 parameters on CPUs."""

    layers: int = field(default_factory=lambda: setting("LAYERS", 12, 6))
    width: int = field(default_factory=lambda: setting("WIDTH", 8192, 256))
    batch: int = field(default_factory=lambda: setting("BATCH", 4096, 64))  # rows on each rank
    warm_up: int = field(default_factory=lambda: setting("WARM_UP", 20, 1))
    steps: int = field(default_factory=lambda: setting("STEPS", 100, 5))

    @property
    def parameters(self) -> int:
        """Return how many the model has; layers have no bias."""
        return self.layers * self.width**2

    @property
    def flop_per_step(self) -> int:
        """Return the operations of one rank: 2 forward and 4 backward per parameter and row."""
        return 6 * self.parameters * self.batch


def begin() -> torch.device:
    """Connect to the other ranks; return this rank's device."""
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    world = int(os.environ["OMPI_COMM_WORLD_SIZE"])
    if ON_GPU:
        device = torch.device("cuda", int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", rank=rank, world_size=world, device_id=device)
        return device
    torch.set_num_threads(1)  # ranks share the cores of a node
    claimed = [os.environ[name] for name in sorted(os.environ) if CLAIMED.fullmatch(name)]
    if claimed:
        os.environ["GLOO_SOCKET_IFNAME"] = ",".join(claimed)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    return torch.device("cpu")


def wait() -> None:
    """Return when the GPU has done what it was given."""
    if ON_GPU:
        torch.cuda.synchronize()


def seconds_of(repeat: int, work: Callable[[], object]) -> float:
    """Return the average seconds of a piece of work."""
    wait()
    start = time.perf_counter()
    for _ in range(repeat):
        work()
    wait()
    return (time.perf_counter() - start) / repeat


def peak(settings: Settings, device: torch.device) -> tuple[float, str]:
    """Return the peak of the device in TFLOP/s, and where the figure is from.

    That is PEAK_TFLOPS, else the table of known GPUs, else a matrix product that is measured here.
    """
    if text := os.environ.get("PEAK_TFLOPS"):
        return float(text), "PEAK_TFLOPS"
    name = torch.cuda.get_device_name(device) if ON_GPU else "CPU"
    for pattern, tflops in PEAKS:
        if re.search(pattern, name):
            return tflops, name
    kind = torch.bfloat16 if ON_GPU else torch.float32
    left = torch.randn(settings.width, settings.width, device=device, dtype=kind)
    left @ left
    return 2 * settings.width**3 / seconds_of(10, lambda: left @ left) / 1e12, f"measured on {name}"


def train(settings: Settings, device: torch.device) -> float:
    """Return the average seconds of a step, over all ranks."""
    kind = torch.bfloat16 if ON_GPU else torch.float32
    layers = [
        nn.Linear(settings.width, settings.width, bias=False, device=device, dtype=kind)
        for _ in range(settings.layers)
    ]
    model = DistributedDataParallel(
        nn.Sequential(*layers), device_ids=[device.index] if ON_GPU else None
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    # The gradient of the input is computed too, as in a layer that stands between others.
    rows = torch.randn(settings.batch, settings.width, device=device, dtype=kind)
    rows.requires_grad_()

    def step() -> None:
        model(rows).float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(settings.warm_up):
        step()
    dist.barrier()
    taken = torch.tensor([seconds_of(settings.steps, step)], device=device)
    dist.all_reduce(taken)
    return taken.item() / dist.get_world_size()


def main() -> None:
    """Train; print the result on the first rank."""
    settings = Settings()
    device = begin()
    tflops_peak, source = peak(settings, device)
    seconds = train(settings, device)
    tflops = settings.flop_per_step / seconds / 1e12
    result = {
        "case": os.environ.get("CASE", ""),
        "ranks": dist.get_world_size(),
        "backend": dist.get_backend(),
        "parameters": settings.parameters,
        "tflop_per_step": settings.flop_per_step / 1e12,
        "step_ms": round(seconds * 1e3, 3),
        "tflops_per_gpu": float(f"{tflops:.5g}"),
        "peak_tflops": float(f"{tflops_peak:.5g}"),
        "peak_from": source,
        "mfu_percent": round(100 * tflops / tflops_peak, 2),
    }
    if dist.get_rank() == 0:
        sys.stdout.write(
            f"average step {result['step_ms']} ms, {result['tflops_per_gpu']} TFLOP/s per GPU, "
            f"MFU {result['mfu_percent']} % of {result['peak_tflops']} TFLOP/s ({source})\n"
            f"MFU_RESULT {json.dumps(result)}\n"
        )
        sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
