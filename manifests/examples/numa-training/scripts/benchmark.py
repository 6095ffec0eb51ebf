"""Data-parallel training in BF16 over NCCL: how much of the GPUs' peak a step uses.

A stack of transformer blocks on made-up data; gradients are reduced while the backward pass runs.
Whatever the network can't hide makes the step longer.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH, HEADS = 12, 2048, 16
BATCH, SEQUENCE = 4, 1024
WARM_UP, STEPS = 20, 100
PEAK_TFLOPS = float(os.environ.get("PEAK_TFLOPS", "989"))  # dense BF16 of an H100 SXM


class Model(nn.Module):
    """Transformer blocks from WIDTH numbers to WIDTH numbers."""

    def __init__(self) -> None:
        """Make the blocks."""
        super().__init__()
        block = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True
        )
        self.blocks = nn.TransformerEncoder(block, LAYERS, enable_nested_tensor=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return what is to be minimised."""
        return self.blocks(tokens).float().pow(2).mean()


def flops_per_step(parameters: int) -> float:
    """Return operations of one GPU in a step: 6 per parameter and token, and the attention's."""
    tokens = BATCH * SEQUENCE
    return 6.0 * parameters * tokens + 12.0 * LAYERS * WIDTH * SEQUENCE * tokens


def train(model: nn.Module, device: torch.device) -> float:
    """Return the average seconds of a step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randn(BATCH, SEQUENCE, WIDTH, device=device)

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / STEPS


def main() -> None:
    """Train; print the result on the first rank."""
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    world = int(os.environ["OMPI_COMM_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    model = Model().to(device)
    parameters = sum(each.numel() for each in model.parameters())
    seconds = train(DistributedDataParallel(model, device_ids=[device.index]), device)
    tflops = flops_per_step(parameters) / seconds / 1e12
    result = {
        "case": os.environ.get("CASE", ""),
        "gpus": world,
        "step_ms": round(seconds * 1e3, 3),
        "tflops_per_gpu": round(tflops, 2),
        "mfu_percent": round(100 * tflops / PEAK_TFLOPS, 2),
    }
    if rank == 0:
        sys.stdout.write(f"MFU_RESULT {json.dumps(result)}\n")
        sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
