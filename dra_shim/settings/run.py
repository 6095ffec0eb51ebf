"""Settings of the daemon: the flags of `dra-shim run`, named as dranet's where it has them."""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dra_shim.settings.common import (
    KUBELET_ROOT,
    StatePaths,
    add_azure_flag,
    add_gates_flag,
    add_shared_flag,
    add_state_flags,
    state_from,
)
from dra_shim.settings.listen_address import ListenAddress, parse_address
from dra_shim.settings.providers import ProviderSettings, add_provider_flags, providers_from
from dranet_nri.errors import InvalidValueError
from dranet_nri.facts.host import node_name
from dranet_nri.model import DEFAULT_FILTER
from dranet_nri.settings import duration, patterns

BIND_ADDRESS: Final = ListenAddress("", 9177)
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})  # strconv.ParseBool
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
# Flags of dranet that decide nothing here. They are taken, so that its manifests start, and named.
IGNORED: Final = (
    ("--db-path", "records are files below --state-dir"),
    ("--inventory-min-poll-interval", "the kernel tells what changes"),
    ("--inventory-poll-burst", "the kernel tells what changes"),
    ("--device-attach-timeout", "an attach goes on until it ends, and the gate holds containers"),
    ("--hook-path", "containers wait at the gate, not in an OCI hook"),
    ("--slaac-ready-timeout", "it is a flag of dranet-nri, which waits"),
    ("--slaac-rollback-reserve", "the gate holds containers, and no deadline cuts the wait"),
    ("--cloud-provider-options", "clouds are found by the firmware, and need no options"),
)
# Those of its logging library, but for -v (InitFlags, k8s.io/klog/v2/klog.go).
KLOG: Final = (
    *("--add_dir_header", "--alsologtostderr", "--legacy_stderr_threshold_behavior"),
    *("--log_backtrace_at", "--log_dir", "--log_file", "--log_file_max_size", "--logtostderr"),
    *("--one_output", "--skip_headers", "--skip_log_headers", "--stderrthreshold", "--vmodule"),
)
_KLOG_WHY: Final = "the log goes to standard error; see --log-format and --verbose"
_PROGRAM: Final = "/dranet"  # its image has no entry point, so that its args begin with it
_GO_FLAG: Final = re.compile(r"-[a-z][a-z_-]+(=|$)")
_IDLE_GATE: Final = "devices in pods keep their attributes without it"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of the daemon.

    Attributes:
        node: the Kubernetes node's name.
        kubeconfig: access to the API server, None for the pod's service account.
        bind_address: where metrics and health are served.
        kubelet_root: the kubelet's directory (--root-dir).
        state: where records are.
        filter: CEL, which devices are published.
        shared: CEL, which of them several claims may have at once.
        azure_size: what Azure calls this node's size.
        providers: clouds, webhook and profiles.
        numa_lists: NUMA nodes are published as lists, to servers that take them.
        include, exclude: patterns of devices to publish, none for all, and never to publish.
        uplinks: patterns of interfaces that are the uplinks, none to go by default routes.
        move_ipoib: IPoIB interfaces are given with their devices; False: they stay on the node.
        parents: patterns of interfaces that stay on the node, and of which pods get children.
        rescan_s: the longest time between two full scans of the node, in seconds.
        first_valid_config: dranet's order of configurations.
        ignored: flags of dranet that were given and decide nothing, with why.
        log_json, verbose: log format and level.
    """

    node: str
    kubeconfig: Path | None = None
    bind_address: ListenAddress = BIND_ADDRESS
    kubelet_root: Path = KUBELET_ROOT
    state: StatePaths = field(default_factory=StatePaths)
    filter: str = DEFAULT_FILTER
    shared: str = ""
    azure_size: str = ""
    providers: ProviderSettings = field(default_factory=ProviderSettings)
    numa_lists: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    uplinks: tuple[str, ...] = ()
    move_ipoib: bool = True
    parents: tuple[str, ...] = ()
    rescan_s: float = 60.0
    first_valid_config: bool = False
    ignored: tuple[tuple[str, str], ...] = ()
    log_json: bool = False
    verbose: bool = False


def add_access_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of API server, kubelet and record locations, and of the credentials."""
    add = parser.add_argument
    add("--kubeconfig", type=_file, metavar="FILE", help="default: the pod's service account")
    add(
        "--hostname-override", default="", metavar="NAME",
        help="the Kubernetes node's name (default: $NODE_NAME, else the host name in lower case)",
    )  # fmt: skip
    add(
        "--kubelet-root-dir", type=Path, default=KUBELET_ROOT, metavar="DIR",
        help="the kubelet's directory (default: %(default)s)",
    )  # fmt: skip
    add_state_flags(parser)


def add_address_flag(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the flag that says where the daemon serves people and Prometheus."""
    parser.add_argument(
        "--bind-address", type=_address, default=BIND_ADDRESS, metavar="[HOST]:PORT",
        help=f"{text} (default: %(default)s)",
    )  # fmt: skip


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `run`."""
    add_access_flags(parser)
    add_address_flag(parser, "where /metrics, /healthz and /readyz are served")
    add = parser.add_argument
    add(
        "--filter", default=DEFAULT_FILTER, metavar="CEL",
        help="devices to publish; '' for all (default: %(default)s)",
    )  # fmt: skip
    add_shared_flag(parser)
    add_azure_flag(parser)
    add_provider_flags(parser)
    add_gates_flag(parser)
    for name, which in (
        ("--include", "publish devices, and no others,"),
        ("--exclude", "publish no device"),
    ):
        add(
            name, action="append", default=[], metavar="PATTERN",
            help=f"{which} with such a name: its own, its interface's, its PCI address or an RDMA "
            "device's; *, ? and [...] as in a shell; may be given several times",
        )  # fmt: skip
    add(
        "--uplink-interfaces", default="", metavar="PATTERNS",
        help="the node's uplinks, with commas, instead of what default routes tell; a link with the"
        " Node's address is one all the same; give dranet-nri the same",
    )  # fmt: skip
    add(
        "--parent-interfaces", default="", metavar="PATTERNS",
        help="interfaces that stay on the node, with commas, and of which pods get children"
        " (IPVLAN, MACVLAN, VLAN), be they bonds or uplinks; give dranet-nri the same",
    )  # fmt: skip
    add(
        "--inventory-max-poll-interval", dest="rescan", type=duration, default=60.0,
        metavar="TIME", help="longest time between two scans of the node (default: 1m)",
    )  # fmt: skip
    add(
        "--first-valid-config", action="store_true",
        help="dranet's order: the first configuration alone, so the class beats the claim",
    )  # fmt: skip
    add("--log-format", choices=("console", "json"), default="console", help="log format")
    add("--verbose", action="store_true", help="log every call and every scan")
    add(
        "-v", "--v", dest="level", type=int, default=0, metavar="LEVEL",
        help="klog's level of logging; 4 and more are --verbose; its other flags decide nothing",
    )  # fmt: skip
    add(
        "--move-ib-interfaces", type=_truth, nargs="?", const=True, default=True,
        metavar="true|false",
        help="false: IPoIB interfaces stay on the node, and a device with one is given without it, "
        "for its RDMA device (shared mode; an RDMA device that moves takes it along)",
    )  # fmt: skip
    for name, why in IGNORED:
        _add_ignored(parser, name, f"of dranet, decides nothing: {why}")
    for name in KLOG:
        _add_ignored(parser, name, argparse.SUPPRESS)


def _add_ignored(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    parser.add_argument(name, nargs="?", const="true", metavar="VALUE", help=text)


def _ignored(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for name, why in (*IGNORED, *((name, _KLOG_WHY) for name in KLOG)):
        if getattr(args, name.strip("-").replace("-", "_")) is not None:
            yield name, why
    for gate in args.feature_gates.idle:
        yield f"--feature-gates={gate}", _IDLE_GATE


def without_dranet(words: Sequence[str]) -> list[str]:
    """Return dranet's arguments as argparse takes them; others stay as they are.

    Its program's name in front is dropped. Go takes long flags with one dash, too (package flag).
    """
    after = words[1:] if words and words[0] == _PROGRAM else words
    return [f"-{word}" if _GO_FLAG.match(word) else word for word in after]


def settings_from(args: argparse.Namespace) -> RunSettings:
    """Return what the parsed flags ask for.

    Raises:
        InvalidValueError: flags do not fit one another.
    """
    return RunSettings(
        node=node_name(args.hostname_override),
        kubeconfig=args.kubeconfig,
        bind_address=args.bind_address,
        kubelet_root=args.kubelet_root_dir,
        state=state_from(args),
        filter=args.filter,
        shared=args.shared,
        azure_size=args.azure_size,
        providers=providers_from(args),
        numa_lists=args.feature_gates.lists,
        include=tuple(args.include),
        exclude=tuple(args.exclude),
        uplinks=patterns(args.uplink_interfaces),
        move_ipoib=args.move_ib_interfaces,
        parents=patterns(args.parent_interfaces),
        rescan_s=args.rescan,
        first_valid_config=args.first_valid_config,
        ignored=tuple(_ignored(args)),
        log_json=args.log_format == "json",
        verbose=args.verbose or args.level >= 4,
    )


def _file(text: str) -> Path | None:
    """Parse a path; an empty one is none, as of dranet's flags."""
    return Path(text) if text else None


def _address(text: str) -> ListenAddress:
    try:
        return parse_address(text)
    except InvalidValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _truth(text: str) -> bool:
    """Parse a truth of Go's."""
    if text not in _TRUE | _FALSE:
        raise argparse.ArgumentTypeError(f"{text!r}: must be true or false")
    return text in _TRUE
