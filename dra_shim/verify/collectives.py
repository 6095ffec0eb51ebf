"""Collectives: all-gather and all-reduce over all pods, with NCCL on GPUs, otherwise gloo on CPUs.

The program is that of the example `scale-out`; a ConfigMap mounts it into the pods.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import Final

from dra_shim.verify.documents import PROGRAM_PATH
from dra_shim.verify.node_checks import failed, passed, speed_of
from dra_shim.verify.outputs import COLLECTIVE_KEYS, PodFacts, parse_collectives
from dra_shim.verify.thresholds import THRESHOLDS, Thresholds, passes
from dra_shim.verify.types import CommandResult, Line, Outcome, PodRunner, WorkerPod

PORT: Final = 29500
START_S: Final = 480.0  # seconds to load PyTorch, maybe from a slow disk, and connect NCCL
MESSAGE: Final = 100  # characters of an error
NO_TORCH: Final = "No module named 'torch'"


def program_text() -> str:
    """Return the program."""
    return files("dra_shim.verify").joinpath("collectives.txt").read_text("utf-8")


def check_collectives(
    workers: Sequence[WorkerPod], facts: Sequence[PodFacts], runner: PodRunner,
    thresholds: Thresholds, *, ranks: int, rounds: int,
) -> Iterator[Line]:  # fmt: skip
    """Yield a line for each operation.

    Args:
        workers: the pods; the rendezvous is in the first one.
        facts: facts of the pods, in the same order.
        runner: runs commands in them.
        thresholds: required values.
        ranks: ranks of each pod.
        rounds: repetitions of each operation.
    """
    commands = [_command(workers, node, ranks, rounds) for node in range(len(workers))]
    limit = START_S + 6 * rounds

    def start(number: int) -> CommandResult:
        # `timeout` ends it in the pod: a rank that waits for others must not occupy its GPU.
        guarded = ("timeout", f"{limit:.0f}", *commands[number])
        return runner.run(workers[number].pod, guarded, limit + 10)

    # All at the same time, because each rank waits for all others.
    with ThreadPoolExecutor(len(workers)) as pool:
        done = list(pool.map(start, range(len(workers))))
    where = f"{len(workers) * ranks} ranks"
    result = parse_collectives(done[0].stdout)
    if any(NO_TORCH in ended.stderr for ended in done):
        why = "the image has no PyTorch: set --image"
        yield Line("collectives", where, "", Outcome.NOT_MEASURED, meaning=why)
        return
    if result is None:
        yield failed("collectives", "no-collective", where, "", _message(done, limit))
        return
    backend, rates = result
    speeds = [
        _speed_of(worker, worker_facts) for worker, worker_facts in zip(workers, facts, strict=True)
    ]
    for name in COLLECTIVE_KEYS:
        threshold = thresholds.of_collective(name, min(speeds), nccl=backend == "nccl")
        unit = THRESHOLDS[name][0]
        texts = (f"{rates[name]:.3g} {unit} ({backend})", f"{threshold:.3g} {unit}")
        if passes(name, rates[name], threshold):
            yield passed(name, where, "", *texts)
        else:
            yield failed(name, "slow-collective", where, "", *texts, rates[name] / threshold)


def _command(workers: Sequence[WorkerPod], node: int, ranks: int, rounds: int) -> list[str]:
    """Return the command of a pod."""
    devices = ",".join(nic.rdma for nic in workers[node].nics if nic.rdma)
    environment = [
        "env", "NCCL_SOCKET_IFNAME=eth0",  # for the rendezvous: the pod network
        *([f"NCCL_IB_HCA=={devices}"] if devices else []),  # the second "=": these names exactly
    ]  # fmt: skip
    address, program = workers[0].address, (PROGRAM_PATH, f"--rounds={rounds}")
    if ranks == 1:  # without the launcher, which would load PyTorch once more
        return [
            *environment, f"MASTER_ADDR={address}", f"MASTER_PORT={PORT}", "LOCAL_RANK=0",
            f"RANK={node}", f"WORLD_SIZE={len(workers)}", "python3", *program,
        ]  # fmt: skip
    return [
        *environment, "python3", "-m", "torch.distributed.run", f"--nnodes={len(workers)}",
        f"--nproc-per-node={ranks}", f"--node-rank={node}",
        f"--master-addr={address}", f"--master-port={PORT}", *program,
    ]  # fmt: skip


def _speed_of(worker: WorkerPod, facts: PodFacts) -> float:
    """Return the total Gbit/s of a pod's NICs, 0 if one is unknown."""
    speeds = [speed_of(nic, facts) for nic in worker.nics]
    return sum(speeds) if all(speeds) else 0.0


def _message(done: Sequence[CommandResult], limit_s: float) -> str:
    """Return the last error of the first pod that has one, else how the program ended."""
    for ended in done:
        errors = [line for line in ended.stderr.splitlines() if "Error" in line]
        if errors:
            return errors[-1].strip()[:MESSAGE]
    status = next((ended.exit_code for ended in done if ended.exit_code), 0)
    if status == 124:  # of timeout(1)
        return f"no result within {limit_s:.0f} s"
    return f"exit status {status}" if status else "no result"
