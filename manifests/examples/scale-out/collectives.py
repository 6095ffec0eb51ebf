"""All-gather and all-reduce between the ranks of a job: the bus bandwidth of each.

Bus bandwidth is as nccl-tests defines it: what crosses the slowest link. On GPUs the ranks use
NCCL, else gloo over the claimed NICs. The last line is `COLLECTIVES_RESULT` and JSON;
`compare.py` reads it.
"""

import argparse
import json
import os
import re
import sys
import time

import torch
import torch.distributed as dist

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
CLAIMED = re.compile(r"DRA_NET_\w+_IFNAMES")  # set by the driver, for each claim and request


def size_of(text: str) -> int:
    """Return the bytes of a size such as 64K, 1M or 8G."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number, and K, M or G, as in 64M")
    return int(match[1]) * UNITS[match[2]]


def parse() -> argparse.Namespace:
    """Return the flags; each has an environment variable for its default."""
    parser = argparse.ArgumentParser(description=__doc__)
    large = "8G" if torch.cuda.is_available() else "16M"
    for flag, default, text in (
        ("--minimum", "1M", "smallest message"),
        ("--maximum", large, "largest message"),
    ):
        default = os.environ.get(f"COLLECTIVES_{flag[2:].upper()}", default)
        parser.add_argument(flag, type=size_of, default=size_of(default), help=text)
    parser.add_argument("--factor", type=int, default=4, help="between one size and the next")
    parser.add_argument("--rounds", type=int, default=20, help="measured repetitions of each")
    parser.add_argument("--case", default=os.environ.get("CASE", ""), help="name for the result")
    return parser.parse_args()


def sizes(minimum: int, maximum: int, factor: int) -> list[int]:
    """Return the sizes of messages in bytes; the last is the maximum."""
    if maximum < minimum or factor < 2:
        raise SystemExit("give a --maximum of at least --minimum, and a --factor of at least 2")
    found = []
    while minimum < maximum:
        found.append(minimum)
        minimum *= factor
    return [*found, maximum]


def begin() -> torch.device:
    """Connect to the other ranks; return this rank's device."""
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
        return device
    claimed = [os.environ[name] for name in sorted(os.environ) if CLAIMED.fullmatch(name)]
    if claimed:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", ",".join(claimed))
    dist.init_process_group("gloo")
    return torch.device("cpu")


def wait(device: torch.device) -> None:
    """Return when the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def bandwidth(name: str, size: int, rounds: int, device: torch.device) -> float:
    """Return the bus bandwidth of a collective operation in GB/s.

    Args:
        name: `all-gather` or `all-reduce`.
        size: bytes of the whole buffer, as nccl-tests counts it.
        rounds: measured repetitions.
        device: where the buffer is.
    """
    world = dist.get_world_size()
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    part = torch.zeros(size // kind.itemsize // world, dtype=kind, device=device)
    whole = torch.zeros(len(part) * world, dtype=kind, device=device)

    def run() -> None:
        if name == "all-gather":
            dist.all_gather_into_tensor(whole, part)
        else:
            dist.all_reduce(whole)

    for _ in range(3):
        run()
    wait(device)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(rounds):
        run()
    wait(device)
    seconds = (time.perf_counter() - start) / rounds
    factor = (world - 1) / world * (1 if name == "all-gather" else 2)
    return size / seconds * factor / 1e9


def say(text: str) -> None:
    """Print a line on the first rank."""
    if dist.get_rank() == 0:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def main() -> None:
    """Print a line for each size, then the result of the largest."""
    args = parse()
    device = begin()
    say(f"{dist.get_world_size()} ranks, {dist.get_backend()}, {args.rounds} rounds")
    say(f"{'bytes':>12} {'all-gather GB/s':>16} {'all-reduce GB/s':>16}")
    found = {}
    for size in sizes(args.minimum, args.maximum, args.factor):
        found = {
            name: bandwidth(name, size, args.rounds, device)
            for name in ("all-gather", "all-reduce")
        }
        say(f"{size:>12} {found['all-gather']:>16.3f} {found['all-reduce']:>16.3f}")
    result = {
        "case": args.case,
        "ranks": dist.get_world_size(),
        "backend": dist.get_backend(),
        "bytes": args.maximum,
        "all_gather_gb_s": round(found["all-gather"], 3),
        "all_reduce_gb_s": round(found["all-reduce"], 3),
    }
    say(f"COLLECTIVES_RESULT {json.dumps(result)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
