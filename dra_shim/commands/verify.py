"""Command `verify`: measures the network between pods with claimed NICs."""

import argparse
import signal
import sys
import time
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Final

from dra_shim.commands.documents import read_text
from dra_shim.verify.collectives import program_text
from dra_shim.verify.documents import PodRequirements, base_documents, nodes_of
from dra_shim.verify.kubectl import Kubectl
from dra_shim.verify.matrix import draw
from dra_shim.verify.measure import MeasurementPlan, measure
from dra_shim.verify.pair_checks import FULL, QUICK
from dra_shim.verify.pods import new_namespace, running_pods
from dra_shim.verify.report import as_document, as_text, verdict_of
from dra_shim.verify.shells import PodShells
from dra_shim.verify.thresholds import THRESHOLDS, parse_thresholds
from dra_shim.verify.types import Line, Outcome
from dranet_nri.component.output import add_output_flag, naming, print_lines, show_document
from dranet_nri.errors import ConfigError, InvalidValueError

IMAGE: Final = "docker.io/library/ubuntu:24.04"
IMAGE_WITH_TORCH: Final = "nvcr.io/nvidia/pytorch:25.08-py3"
EXAMPLES: Final = (
    "verify",
    "verify --full --svg matrix.svg",
    "verify --nodes node-a,node-b --nics 1 --threshold write=380",
    "verify --collectives --gpus 8",
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    thresholds = "; ".join(
        f"{name} ({unit}: {text})" for name, (unit, _, text) in THRESHOLDS.items()
    )
    thresholds = thresholds.replace("%", "%%")  # for argparse
    parser.add_argument("--full", action="store_true",
                        help="all pairs of nodes and longer measurements; without it, each node "
                        "and the next one")  # fmt: skip
    parser.add_argument("--nodes", metavar="A,B", default="",
                        help="nodes to measure; by default all that publish NICs. A node named "
                        "twice has two pods")  # fmt: skip
    parser.add_argument("--class", dest="device_class", default="nic.dra.net", metavar="CLASS",
                        help="DeviceClass of the NICs")  # fmt: skip
    parser.add_argument("--nics", type=int, default=0, metavar="N",
                        help="NICs that a pod claims; 0, the default, is all of the node, and "
                        "none of them may be in use")  # fmt: skip
    parser.add_argument("--gpus", type=int, default=0, metavar="N",
                        help="GPUs that each pod claims")  # fmt: skip
    parser.add_argument("--gpu-class", default="gpu.nvidia.com", metavar="CLASS",
                        help="DeviceClass of the GPUs")  # fmt: skip
    parser.add_argument("--image", default="",
                        help="image with iproute2, ping, iperf3, rping and perftest, or with "
                        f"apt-get to install them; by default {IMAGE}, with --collectives "
                        f"{IMAGE_WITH_TORCH}")  # fmt: skip
    parser.add_argument("--pod", metavar="FILE", default="",
                        help="a Pod with further requirements of this cloud: volumes, "
                        "environment, pull secrets; its image is used without --image. Further "
                        "documents are created with it: Secrets, ConfigMaps, NetworkPolicies, "
                        "ServiceAccounts, ResourceClaimTemplates")  # fmt: skip
    parser.add_argument("--collectives", action="store_true",
                        help="also measure all-gather and all-reduce over all pods: by NCCL with "
                        "--gpus, else by gloo on the CPUs")  # fmt: skip
    parser.add_argument("--threshold", action="append", default=[], metavar="NAME=NUMBER",
                        help=f"replaces a default threshold; repeatable. {thresholds}")  # fmt: skip
    parser.add_argument("--exclusive", action="store_true",
                        help="fail if a pod sees RDMA devices that it does not claim")  # fmt: skip
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS",
                        help="limit for the pods to be ready (default: %(default)g)")  # fmt: skip
    add_output_flag(parser)
    parser.add_argument("--svg", metavar="FILE", help="also draw the matrix of all pairs")
    parser.add_argument("--verbose", action="store_true",
                        help="also list what passed, and the duration of each check")  # fmt: skip
    parser.add_argument("--kubeconfig", default="", metavar="FILE",
                        help="kubeconfig file; default: that of kubectl")  # fmt: skip
    parser.add_argument("--context", default="", help="context of the kubeconfig")


def main(args: argparse.Namespace) -> int:
    """Measure and print the report; 1 if a check failed, or no two NICs could be measured.

    Raises:
        KubectlError: the pods could not be created or deleted, or did not become ready.
        InvalidValueError: a flag has no usable value.
    """
    durations = FULL if args.full else QUICK
    ranks = max(args.gpus, 1) if args.collectives else 0
    plan = MeasurementPlan(
        parse_thresholds(args.threshold), durations, args.full, args.exclusive, ranks
    )
    for flag in ("nics", "gpus"):
        if getattr(args, flag) < 0:
            raise InvalidValueError(f"--{flag} {getattr(args, flag)}: give 0 or a positive number")
    requirements = _requirements(args)
    if args.svg:
        Path(args.svg).touch()  # a file that cannot be written is refused before the measurement
    lines: list[Line] = []
    try:
        _measure(args, plan, requirements, lines)
    finally:  # also if the clean-up fails
        if lines:
            _report(args, lines)
    return 0 if verdict_of(lines) is Outcome.PASSED else 1


def _report(args: argparse.Namespace, lines: list[Line]) -> None:
    if not show_document(args.output, lambda: as_document(lines)):
        print_lines(*as_text(lines, verbose=args.verbose))
    if args.svg:
        with naming(args.svg):
            Path(args.svg).write_text(draw(lines))


def _nodes(args: argparse.Namespace, kubectl: Kubectl) -> list[str]:
    """Return the nodes to measure.

    Raises:
        InvalidValueError: one publishes no NICs, or there are fewer than two.
    """
    published = nodes_of(kubectl.get("resourceslices"))
    nodes = [name for name in args.nodes.split(",") if name] or published
    if unknown := [name for name in nodes if name not in published]:
        raise InvalidValueError(
            f"--nodes {','.join(unknown)}: no NICs are published there: check the name, and that "
            "the driver runs (`kubectl get resourceslices`)"
        )
    if len(nodes) < 2:
        found = ", ".join(nodes) or "none"
        raise InvalidValueError(
            f"--nodes: a measurement needs two, and there is {found}: name a node twice for two "
            "pods on it, or check that the driver runs (`kubectl get resourceslices`)"
        )
    if len(set(nodes)) < len(nodes) and not args.nics:
        raise InvalidValueError(f"--nodes {args.nodes}: two pods of a node need --nics")
    return nodes


def _measure(
    args: argparse.Namespace, plan: MeasurementPlan, requirements: PodRequirements,
    lines: list[Line],
) -> None:  # fmt: skip
    """Add the results to `lines`."""
    namespace = new_namespace()
    kubectl = Kubectl(args.kubeconfig, args.context, namespace)
    nodes = _nodes(args, kubectl)
    start = time.monotonic()

    def progress(text: str) -> None:
        print_lines(f"[{time.monotonic() - start:4.0f} s] {text}", to=sys.stderr)

    shells = PodShells(kubectl.start_shell)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        shells.close()  # so that the measurements end and the clean-up runs
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as with `nohup`
            signal.signal(number, interrupt)
    with (
        running_pods(kubectl, namespace, nodes, requirements, args.timeout, progress) as pods,
        closing(shells),
    ):
        workers, unready = pods
        lines += [*unready, *measure(workers, shells, plan, progress)]


def _requirements(args: argparse.Namespace) -> PodRequirements:
    """Return the requirements of the pods.

    Raises:
        ConfigError: the file of --pod cannot be read, or has no Pod with one container.
    """
    try:
        base, others = base_documents(read_text(args.pod)) if args.pod else ({}, [])
    except ConfigError as error:
        raise ConfigError([f"--pod {args.pod}: {line}" for line in error.violations]) from None
    default = IMAGE_WITH_TORCH if args.collectives else IMAGE
    return PodRequirements(
        args.image or ("" if base else default), args.device_class, args.nics, args.gpu_class,
        args.gpus, program_text() if args.collectives else "", base, others,
    )  # fmt: skip
