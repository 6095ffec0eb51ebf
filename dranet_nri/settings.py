"""Settings of the plugin: flags and environment, parsed once into frozen values."""

import argparse
import math
import os
import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from dranet_nri.errors import InvalidValueError
from dranet_nri.model import CharKind, RdmaMode

ALLOCATIONS: Final = Path("/var/lib/dranet-nri/allocations")
RUN: Final = Path("/run/dranet-nri")
CDI: Final = Path("/var/run/cdi")
NRI_SOCKET: Final = Path("/var/run/nri/nri.sock")
RCU_PARAMETERS: Final = Path("/sys/module/rcutree/parameters")
# RuntimeClass handlers of Kata Containers, gVisor and others with a guest kernel, by their
# documentation.
VM_HANDLERS: Final = (
    *("*kata*", "*gvisor*", "*runsc*", "*firecracker*", "*krun*"),
    *("*edera*", "*kuasar-vmm*", "*urunc*", "runv"),
)
UNLIMITED: Final = 2**64 - 1  # RLIM_INFINITY
SLAAC_S: Final = 8.0  # links of 100 Gbit/s need seconds after a move
DHCP_S: Final = 10.0  # the same, and two answers of a server
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}  # of a Go duration


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the plugin.

    Attributes:
        nri_socket: the runtime's NRI socket.
        name, index: identity towards the runtime; index is two digits.
        allocations: directory of the shim's records, read-only.
        run: the plugin's directory: attachments, metadata files, lock.
        cdi: directory of CDI specs; must be on tmpfs so that a reboot closes the gate.
        memlock: RLIMIT_MEMLOCK in bytes for RDMA containers, None to keep it.
        environment: whether containers get interface names in their environment.
        rdma_char_devices: kinds of RDMA device files for containers, unless a claim sets them.
        rdma_mode: required RDMA mode of the machine, None for either.
        node_addresses: addresses of the node in the cluster; links with one stay on the host.
        uplinks: patterns of uplink interfaces, () to derive them from default routes.
        include: patterns of links to which no heuristic applies.
        parents: patterns of links that stay on the host as parents of child links.
        vm_handlers: patterns of RuntimeClass handlers whose pods are refused NICs, in lower case.
        slaac_s: timeout of the wait for IPv6 addresses of a pod, in seconds.
        dhcp_s: timeout of the wait for DHCP leases of a pod, in seconds.
        resync_s: seconds between periodic reconciles.
        proc: procfs with a writable sys/net; a container's own is read-only.
        sysfs: mount point of sysfs.
        rcu: directory of the kernel's RCU parameters, None to change none.
        log_json, verbose: log format and level.
    """

    nri_socket: Path = NRI_SOCKET
    name: str = "dra.net"
    index: str = "00"
    allocations: Path = ALLOCATIONS
    run: Path = RUN
    cdi: Path = CDI
    memlock: int | None = UNLIMITED
    environment: bool = True
    rdma_char_devices: tuple[CharKind, ...] = (CharKind.UVERBS, CharKind.RDMA_CM)
    rdma_mode: RdmaMode | None = None
    node_addresses: tuple[str, ...] = ()
    uplinks: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    vm_handlers: tuple[str, ...] = VM_HANDLERS
    slaac_s: float = SLAAC_S
    dhcp_s: float = DHCP_S
    resync_s: float = 60.0
    proc: Path = Path("/proc")
    sysfs: Path = Path("/sys")
    rcu: Path | None = RCU_PARAMETERS
    log_json: bool = False
    verbose: bool = False

    @property
    def attachments(self) -> Path:
        """Return the directory of attachment records."""
        return self.run / "attachments"

    @property
    def metadata(self) -> Path:
        """Return the directory of the pods' metadata files."""
        return self.run / "metadata"


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `run`, their defaults taken from Settings."""
    default = Settings()
    add = parser.add_argument
    add("--nri-socket", type=Path, default=default.nri_socket, help="NRI socket of the runtime")
    add("--plugin-name", default=default.name, help="name of the NRI plugin")
    add(
        "--plugin-index",
        default=default.index,
        help="NRI index, two digits; a lower one is called earlier",
    )
    add("--allocations-dir", type=Path, default=default.allocations, help="allocation records")
    add("--run-dir", type=Path, default=default.run, help="attachment records, on tmpfs")
    add("--cdi-dir", type=Path, default=default.cdi, help="CDI specs, on tmpfs")
    add(
        "--proc", type=Path, default=default.proc, metavar="DIR",
        help="directory with sys/net of the host, writable; in a container, /proc/sys is read-only",
    )  # fmt: skip
    add(
        "--rcu-parameters", default=str(default.rcu), metavar="DIR",
        help="directory with the RCU parameter jiffies_till_first_fqs of the host; if it is"
        " writable, it is 0 while a NIC moves, which takes some milliseconds less; 'keep' changes"
        " nothing (default: %(default)s)",
    )  # fmt: skip
    add(
        "--memlock",
        default="unlimited",
        help="RLIMIT_MEMLOCK of containers with RDMA devices: bytes, 'unlimited' or 'keep'",
    )
    add(
        "--no-environment",
        action="store_true",
        help="do not set environment variables in containers",
    )
    add(
        "--rdma-char-devices",
        default=",".join(default.rdma_char_devices),
        metavar="KINDS",
        help="default RDMA device files of containers: uverbs, rdma_cm, umad, issm; the last two "
        "administer the fabric; dranet gives all four (default: %(default)s)",
    )
    add(
        "--rdma-mode",
        choices=("auto", *RdmaMode),
        default="auto",
        help="required RDMA network namespace mode of the node: in exclusive mode, RDMA devices"
        " move with their NIC; in the other mode, claims are refused (default: auto)",
    )
    add(
        "--node-addresses",
        default=os.environ.get("NODE_ADDRESSES", ""),
        metavar="ADDRESSES",
        help="comma-separated addresses of the Node; links that have or carry one never move"
        " (default: $NODE_ADDRESSES)",
    )
    add(
        "--uplink-interfaces", default="", metavar="PATTERNS",
        help="comma-separated uplinks of the node, instead of those by default routes; set the same"
        " for dra-shim",
    )  # fmt: skip
    add(
        "--include", action="append", default=[], metavar="PATTERN",
        help="links that may move although the node seems to use them; set the same for dra-shim",
    )  # fmt: skip
    add(
        "--parent-interfaces", default="", metavar="PATTERNS",
        help="comma-separated interfaces that stay on the node and get children in pods (IPVLAN,"
        " MACVLAN, VLAN), also bonds and uplinks; set the same for dra-shim",
    )  # fmt: skip
    add(
        "--vm-runtimes", default=",".join(VM_HANDLERS), metavar="PATTERNS",
        help="comma-separated handlers, in lower case, of RuntimeClasses that run containers in a"
        " virtual machine; their pods are refused (default: %(default)s)",
    )  # fmt: skip
    add(
        "--slaac-ready-timeout", type=duration, default=default.slaac_s, metavar="TIME",
        help="timeout of the IPv6 addresses of a pod with addressing: SLAAC (default: 8s)",
    )  # fmt: skip
    add(
        "--dhcp-ready-timeout", type=duration, default=default.dhcp_s, metavar="TIME",
        help="timeout of the leases of a pod with addressing: DHCP (default: 10s)",
    )  # fmt: skip
    add(
        "--resync-period",
        type=float,
        default=default.resync_s,
        help="seconds between periodic reconciles",
    )
    add("--log-format", choices=("console", "json"), default="console", help="log format")
    add("--verbose", "-v", action="store_true", help="log every operation")


def settings_from(args: argparse.Namespace) -> Settings:
    """Return the settings of the parsed flags.

    Raises:
        InvalidValueError: a flag's value is invalid; the text has flag, value and rule.
    """
    if not args.resync_period > 0:  # False for nan, too
        raise InvalidValueError(f"--resync-period {args.resync_period}: must be above 0 seconds")
    return Settings(
        nri_socket=args.nri_socket,
        name=args.plugin_name,
        index=args.plugin_index,
        allocations=args.allocations_dir,
        run=args.run_dir,
        cdi=args.cdi_dir,
        proc=args.proc,
        rcu=None if args.rcu_parameters == "keep" else Path(args.rcu_parameters),
        memlock=_memlock(args.memlock),
        environment=not args.no_environment,
        rdma_char_devices=_char_kinds(args.rdma_char_devices),
        rdma_mode=None if args.rdma_mode == "auto" else RdmaMode(args.rdma_mode),
        node_addresses=_addresses(args.node_addresses),
        uplinks=patterns(args.uplink_interfaces),
        include=tuple(args.include),
        parents=patterns(args.parent_interfaces),
        vm_handlers=patterns(args.vm_runtimes),
        slaac_s=args.slaac_ready_timeout,
        dhcp_s=args.dhcp_ready_timeout,
        resync_s=args.resync_period,
        log_json=args.log_format == "json",
        verbose=args.verbose,
    )


def _memlock(text: str) -> int | None:
    if text == "keep":
        return None
    if text == "unlimited":
        return UNLIMITED
    if re.fullmatch(r"[0-9]{1,20}", text) and int(text) <= UNLIMITED:
        return int(text)
    raise InvalidValueError(f"--memlock {text[:40]!r}: must be bytes, 'unlimited' or 'keep'")


def duration(text: str) -> float:
    """Parse a Go duration ("1m30s") or plain seconds, above 0.

    Raises:
        argparse.ArgumentTypeError: it is neither, or not above 0.
    """
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    elif re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        seconds = float(text)
    else:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a duration such as 500ms, 2s or 1m30s")
    if not seconds or not math.isfinite(seconds):
        raise argparse.ArgumentTypeError(f"{text!r}: must be above 0")
    return seconds


def patterns(text: str) -> tuple[str, ...]:
    """Return the patterns of a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _addresses(text: str) -> tuple[str, ...]:
    words = (word.strip() for word in text.split(","))
    try:
        return tuple(str(ip_address(word)) for word in words if word)
    except ValueError as error:
        raise InvalidValueError(f"--node-addresses {text[:60]!r}: {error}") from None


def _char_kinds(text: str) -> tuple[CharKind, ...]:
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    try:
        return tuple(dict.fromkeys(map(CharKind, words)))
    except ValueError:
        allowed = ", ".join(CharKind)
        raise InvalidValueError(
            f"--rdma-char-devices {text[:40]!r}: must be of {allowed}, with commas"
        ) from None
