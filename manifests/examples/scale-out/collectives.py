"""All-gather and all-reduce over NCCL: the bus bandwidth of each, as nccl-tests counts it."""

import os
import sys
import time

import torch
import torch.distributed as dist

SIZES = [2**power for power in range(20, 31, 2)]  # bytes, 1 MiB to 1 GiB
ROUNDS = 20


def bandwidth(name: str, size: int) -> float:
    """Return GB/s on the bus: what crosses the slowest link, not what a rank gets."""
    world = dist.get_world_size()
    part = torch.zeros(size // 2 // world, dtype=torch.bfloat16, device="cuda")
    whole = torch.zeros(len(part) * world, dtype=torch.bfloat16, device="cuda")

    def run() -> None:
        if name == "all-gather":
            dist.all_gather_into_tensor(whole, part)
        else:
            dist.all_reduce(whole)

    for _ in range(3):
        run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(ROUNDS):
        run()
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / ROUNDS
    factor = (world - 1) / world * (1 if name == "all-gather" else 2)
    return size / seconds * factor / 1e9


def main() -> None:
    """Print a line for each size, on the first rank."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    for size in SIZES:
        found = {name: bandwidth(name, size) for name in ("all-gather", "all-reduce")}
        if dist.get_rank() == 0:
            line = ", ".join(f"{name} {value:.2f} GB/s" for name, value in found.items())
            sys.stdout.write(f"{size >> 20} MiB: {line}\n")
            sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
