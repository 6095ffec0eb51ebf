"""Settings of the daemon: the flags of `dra-shim run`, named as in dranet where possible."""

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
    argument,
    state_from,
)
from dra_shim.settings.feature_gates import BOOLEANS
from dra_shim.settings.listen_address import ListenAddress, parse_address
from dra_shim.settings.providers import ProviderSettings, add_provider_flags, providers_from
from dranet_nri.facts.host import node_name
from dranet_nri.model import DEFAULT_FILTER
from dranet_nri.settings import duration, patterns

BIND_ADDRESS: Final = ListenAddress("", 9177)
# Flags of dranet without effect here. They are accepted for its manifests, and logged.
IGNORED: Final = (
    ("--db-path", "records are files below --state-dir"),
    ("--inventory-min-poll-interval", "kernel events report changes"),
    ("--inventory-poll-burst", "kernel events report changes"),
    ("--device-attach-timeout", "an attach has no deadline, and the gate blocks containers"),
    ("--hook-path", "containers wait at the gate, not in an OCI hook"),
    ("--slaac-ready-timeout", "use this flag of dranet-nri"),
    ("--slaac-rollback-reserve", "the gate blocks containers, and no deadline ends the wait"),
    ("--cloud-provider-options", "clouds are detected by the firmware, without options"),
)
# Flags of klog, except for -v (InitFlags, k8s.io/klog/v2/klog.go).
KLOG: Final = (
    *("--add_dir_header", "--alsologtostderr", "--legacy_stderr_threshold_behavior"),
    *("--log_backtrace_at", "--log_dir", "--log_file", "--log_file_max_size", "--logtostderr"),
    *("--one_output", "--skip_headers", "--skip_log_headers", "--stderrthreshold", "--vmodule"),
)
_KLOG_WHY: Final = "the log goes to standard error; see --log-format and --verbose"
_PROGRAM: Final = "/dranet"  # dranet's image has no entry point, so its args begin with the program
_GO_FLAG: Final = re.compile(r"-[a-z][a-z_-]+(=|$)")
_GATE_WHY: Final = "devices in pods keep their attributes without it"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of the daemon.

    Attributes:
        node: name of the Node.
        kubeconfig: access to the API server, None for the pod's service account.
        bind_address: address of metrics and health.
        kubelet_root: the kubelet's directory (--root-dir).
        state: locations of the records.
        filter: CEL expression of published devices.
        shared: CEL expression of devices that several claims may have.
        azure_size: Azure VM size of this node.
        providers: clouds, webhook and profiles.
        numa_lists: NUMA nodes are published as lists, if the server supports lists.
        include, exclude: patterns of devices to publish (none for all), and not to publish.
        uplinks: patterns of the uplinks, none to detect them by routes.
        move_ipoib: IPoIB interfaces move with their devices; False: they stay on the node.
        parents: patterns of interfaces that stay on the node and get children in pods.
        rescan_s: seconds between two full scans of the node.
        first_valid_config: dranet's precedence of configurations.
        ignored: given flags of dranet without effect, each with the reason.
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
    """Add the flags of API server, kubelet, record locations and credentials."""
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
    """Add the flag for the address of metrics and health."""
    parser.add_argument(
        "--bind-address", type=argument(parse_address), default=BIND_ADDRESS, metavar="[HOST]:PORT",
        help=f"{text} (default: %(default)s)",
    )  # fmt: skip


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `run`."""
    add_access_flags(parser)
    add_address_flag(parser, "where /metrics, /healthz and /readyz are served")
    add = parser.add_argument
    add(
        "--filter", default=DEFAULT_FILTER, metavar="CEL",
        help="CEL expression of devices to publish; '' for all (default: %(default)s)",
    )  # fmt: skip
    add_shared_flag(parser)
    add_azure_flag(parser)
    add_provider_flags(parser)
    add_gates_flag(parser)
    for name, which in (
        ("--include", "publish only devices"),
        ("--exclude", "publish no device"),
    ):
        add(
            name, action="append", default=[], metavar="PATTERN",
            help=f"{which} with such a name: its own, its interface's, its PCI address or an RDMA "
            "device's; *, ? and [...] as in a shell; may be given several times",
        )  # fmt: skip
    add(
        "--uplink-interfaces", default="", metavar="PATTERNS",
        help="comma-separated uplinks of the node, instead of those by default routes; a link with"
        " an address of the Node is always an uplink; set the same for dranet-nri",
    )  # fmt: skip
    add(
        "--parent-interfaces", default="", metavar="PATTERNS",
        help="comma-separated interfaces that stay on the node and get children in pods (IPVLAN,"
        " MACVLAN, VLAN), also bonds and uplinks; set the same for dranet-nri",
    )  # fmt: skip
    add(
        "--inventory-max-poll-interval", dest="rescan", type=duration, default=60.0,
        metavar="TIME", help="longest time between two scans of the node (default: 1m)",
    )  # fmt: skip
    add(
        "--first-valid-config", action="store_true",
        help="dranet's precedence: only the first configuration applies, that of the class",
    )  # fmt: skip
    add("--log-format", choices=("console", "json"), default="console", help="log format")
    add("--verbose", action="store_true", help="log every call and every scan")
    add(
        "-v", "--v", dest="level", type=int, default=0, metavar="LEVEL",
        help="log level of klog; 4 and more mean --verbose; its other flags have no effect",
    )  # fmt: skip
    add(
        "--move-ib-interfaces", type=_truth, nargs="?", const=True, default=True,
        metavar="true|false",
        help="false: IPoIB interfaces stay on the node, and pods get the RDMA device only (shared "
        "mode; in exclusive mode the move of the RDMA device would destroy the interface)",
    )  # fmt: skip
    for name, why in IGNORED:
        _add_ignored(parser, name, f"flag of dranet without effect: {why}")
    for name in KLOG:
        _add_ignored(parser, name, argparse.SUPPRESS)


def _add_ignored(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    parser.add_argument(name, nargs="?", const="true", metavar="VALUE", help=text)


def _ignored(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for name, why in (*IGNORED, *((name, _KLOG_WHY) for name in KLOG)):
        if getattr(args, name.strip("-").replace("-", "_")) is not None:
            yield name, why
    for gate in args.feature_gates.ignored:
        yield f"--feature-gates={gate}", _GATE_WHY


def without_dranet(words: Sequence[str]) -> list[str]:
    """Return dranet's arguments in the form that argparse accepts; other arguments are unchanged.

    A leading program name is removed. Go also accepts long flags with one dash (package flag).
    """
    after = words[1:] if words and words[0] == _PROGRAM else words
    return [f"-{word}" if _GO_FLAG.match(word) else word for word in after]


def settings_from(args: argparse.Namespace) -> RunSettings:
    """Return the settings of the parsed flags.

    Raises:
        InvalidValueError: the flags contradict each other.
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
    """Parse a path; an empty one means none, as in dranet."""
    return Path(text) if text else None


def _truth(text: str) -> bool:
    """Parse a boolean of Go."""
    if text not in BOOLEANS:
        raise argparse.ArgumentTypeError(f"{text!r}: must be true or false")
    return BOOLEANS[text]
