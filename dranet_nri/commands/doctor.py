"""Command `doctor`: problems of this node that block devices for pods, with remedies.

Rules:
1. It changes nothing. Devices are opened briefly, each in a child process; --no-probe opens none.
2. Findings are limited to local facts: a configuration file may be overridden, a switch may drop
   packets.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, assert_never

from dranet_nri.component.findings import Finding, Severity, show_findings
from dranet_nri.component.output import add_output_flag, fields_of
from dranet_nri.facts.diagnostics import HostDiagnostics, HostPaths, read_diagnostics
from dranet_nri.facts.host import PCI_IDS
from dranet_nri.facts.runtime_config import CONTAINERD, CRIO, ContainerdFile
from dranet_nri.facts.scan import read_host
from dranet_nri.facts.verbs import VerbsDevice, VerbsFailure, is_installed, probe
from dranet_nri.inventory import AzureHost, PciFunction, RdmaDeviceFacts, placements
from dranet_nri.inventory.host_facts import UNKNOWN_NAME
from dranet_nri.model import RdmaMode
from dranet_nri.settings import NRI_SOCKET, RUN
from dranet_nri.state import heartbeat
from dranet_nri.state.heartbeat import PluginHealth

EXAMPLES: Final = (
    "doctor",
    "doctor --no-probe --output json",
)
SAME_HOST_IPOIB: Final = (5, 8)  # enhanced IPoIB delivers between pods of one host from there on
DMA_BUF: Final = (5, 12)  # ib_reg_user_mr_dmabuf
ANY_SIZE: Final = 2**64 - 1
EXCLUSIVE_AT_BOOT: Final = "boot with: options ib_core netns_mode=0"
CONTAINERD_NRI: Final = (
    'disable = false below [plugins."io.containerd.nri.v1.nri"] of containerd\'s settings (and '
    "nothing of it in disabled_plugins), and restart containerd"
)
CDI_DIRS: Final = frozenset({"/var/run/cdi", "/run/cdi"})  # the plugin's, by both its names
CRIO_NRI: Final = "enable_nri = true below [crio.nri] of CRI-O's settings, and restart CRI-O"
_PEERMEM: Final = frozenset({"nvidia_peermem", "nv_peer_mem"})


_KINDS: Final = (  # kind of character device, its module, how bad its lack is, who needs it
    ("uverbs", "ib_uverbs", Severity.BAD, "nothing can use the device"),
    ("rdma_cm", "rdma_ucm", Severity.WARNING, "programs that connect by IP address need it"),
    ("umad", "ib_umad", Severity.NOTE, "only ibstat and similar tools need it"),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--sysfs", type=Path, default=Path("/sys"), help="mount of sysfs")
    parser.add_argument("--proc", type=Path, default=Path("/proc"), help="mount of procfs")
    parser.add_argument("--dev", type=Path, default=Path("/dev"), help="the host's /dev")
    parser.add_argument(
        "--containerd-config", type=Path, default=CONTAINERD, help="containerd's settings"
    )
    parser.add_argument(
        "--crio-config", type=Path, default=CRIO, help="configuration directory of CRI-O"
    )
    parser.add_argument("--nri-socket", type=Path, default=NRI_SOCKET, help="runtime's NRI socket")
    parser.add_argument("--run-dir", type=Path, default=RUN, help="the plugin's directory")
    parser.add_argument("--no-probe", action="store_true", help="do not open RDMA devices")
    add_output_flag(parser)


def main(args: argparse.Namespace) -> int:
    """Check the node and print the findings; return 1 if one is bad.

    Raises:
        KernelError: the kernel refused a dump.
    """
    facts = read_host(args.sysfs)
    rdma = facts.rdma
    places = HostPaths(
        args.sysfs, args.proc, args.dev, args.containerd_config, args.crio_config, args.nri_socket
    )
    host = read_diagnostics(rdma, places)
    found = [
        *runtime_findings(host, args.nri_socket, heartbeat.plugin_health(args.run_dir)),
        *findings(rdma, host),
        *azure_findings(facts.azure),
        *name_findings(facts.functions),
    ]
    probed: list[VerbsDevice | VerbsFailure] = []
    if rdma and not args.no_probe:
        probed, opened = verbs_of(rdma, host, probe if is_installed() else None)
        found += opened
    return show_findings(args.output, found, verbs=[fields_of(device) for device in probed])


def runtime_findings(
    host: HostDiagnostics, socket: Path, health: PluginHealth
) -> Iterator[Finding]:
    """Yield findings about the plugin's connection, and without one about NRI.

    Args:
        host: the facts.
        socket: where the runtime's NRI socket should be.
        health: health of the plugin.
    """
    for line in health.problems:
        yield Finding("plugin", Severity.BAD, f"{line}; see its log")
    for line in health.remarks:
        yield Finding("plugin", Severity.WARNING, line)
    if not health.problems:
        yield Finding("plugin", Severity.OK, "running, and connected to the runtime")
        return
    if host.crio and host.crio.error:
        yield Finding("CRI-O", Severity.NOTE, f"its settings are unreadable: {host.crio.error}")
    yield _nri(host, socket)


def findings(rdma: Sequence[RdmaDeviceFacts], host: HostDiagnostics) -> Iterator[Finding]:
    """Yield the findings that do not open a device.

    Args:
        rdma: the RDMA devices on the host.
        host: the other facts.
    """
    yield _mode(rdma, host.mode)
    for device in rdma:
        yield from _device(device)
        yield from _files(device, host)
    yield from _unlinked(host)
    if rdma:
        yield _memlock(host.memlock)
    if any(port.link_layer == "InfiniBand" for device in rdma for port in device.ports):
        yield _same_host(host.kernel)
    if host.nvidia:
        yield _gpu_direct(host)
    yield _cdi_read_elsewhere(host) or _cdi(host.containerd)


def name_findings(functions: Sequence[PciFunction]) -> Iterator[Finding]:
    """Yield a finding if the PCI ID database, whose names selectors may compare, is missing."""
    if functions and all(function.vendor_name == UNKNOWN_NAME for function in functions):
        text = (
            f'dra.net/pciVendor and pciDevice of all NICs are "{UNKNOWN_NAME}", and selectors and '
            "filters that compare them match nothing: install the PCI ID database (package pci.ids "
            f"or hwdata, {' or '.join(map(str, PCI_IDS))})"
        )
        yield Finding("PCI names", Severity.WARNING, text)


def azure_findings(host: AzureHost | None) -> Iterator[Finding]:
    """Yield whether the PCIe layout of an Azure machine is known."""
    if host is None:
        return
    if placements(host):
        text = "NUMA nodes and GPUs of the NICs are derived from the PCI domains of the GPUs"
        yield Finding("Azure", Severity.OK, text)
    else:
        text = (
            "NUMA node and GPUs of the NICs are unknown: if the VM is an ND of v4 or v5, set "
            "--azure-size of dra-shim and 'dranet-nri inventory' to its size"
        )
        yield Finding("Azure", Severity.NOTE, text)


def verbs_of(
    rdma: Sequence[RdmaDeviceFacts],
    host: HostDiagnostics,
    open_device: Callable[[str], VerbsDevice | VerbsFailure] | None,
) -> tuple[list[VerbsDevice | VerbsFailure], list[Finding]]:
    """Return the facts of opened devices, and the findings about them.

    None is opened if /dev is a container's own, where a healthy one would seem broken.

    Args:
        rdma: the RDMA devices on the host.
        host: the facts.
        open_device: opens a device by its name; None without pyverbs.
    """
    if host.own_dev:
        text = "not tested: this container has its own /dev, without the host's device files"
        return [], [Finding("verbs", Severity.NOTE, text)]
    probed = [open_device(device.name) for device in rdma] if open_device else []
    return probed, list(verbs_findings(probed, installed=open_device is not None))


def verbs_findings(
    probed: Sequence[VerbsDevice | VerbsFailure], *, installed: bool
) -> Iterator[Finding]:
    """Yield the findings of opened devices.

    Args:
        probed: one result per device.
        installed: whether pyverbs is installed.
    """
    if not installed:
        text = "not tested: pyverbs is not installed (Debian: python3-pyverbs, for its own Python)"
        yield Finding("verbs", Severity.NOTE, text)
    for device in probed:
        match device:
            case VerbsFailure(name, reason):
                yield Finding(name, Severity.BAD, f"cannot be opened: {reason}")
            case VerbsDevice():
                yield Finding(device.name, Severity.OK, _limits(device))
            case _:
                assert_never(device)


def _mode(rdma: Sequence[RdmaDeviceFacts], mode: RdmaMode | None) -> Finding:
    subject = "RDMA mode"
    if not rdma:
        text = "no RDMA device on the host; devices in pods (exclusive mode) are not visible"
        return Finding(subject, Severity.NOTE, text)
    match mode:
        case None:
            return Finding(subject, Severity.WARNING, "the kernel has no RDMA netlink")
        case RdmaMode.EXCLUSIVE:
            text = "exclusive: an RDMA device moves into the pod, and no other pod has it"
            return Finding(subject, Severity.OK, text)
        case RdmaMode.SHARED:
            text = (
                "shared: every pod lists all RDMA devices and can use those whose files it has; "
                f"to move them too, {EXCLUSIVE_AT_BOOT}"
            )
            return Finding(subject, Severity.OK, text)
        case _:
            assert_never(mode)


def _device(device: RdmaDeviceFacts) -> Iterator[Finding]:
    if device.node_guid and not device.node_guid.strip("0:"):
        text = "its GUID is all zeros: give the VF one before its driver binds"
        yield Finding(device.name, Severity.WARNING, text)
    for port in device.ports:
        grade = Severity.OK if port.state == "ACTIVE" else Severity.WARNING
        words = (device.protocol, port.state or "state unknown", port.phys_state, port.rate)
        yield Finding(f"{device.name} port {port.number}", grade, ", ".join(filter(None, words)))


def _files(device: RdmaDeviceFacts, host: HostDiagnostics) -> Iterator[Finding]:
    has = (host.files or {}).get(device.name, frozenset())
    for kind, module, grade, need in _KINDS:
        if kind not in has and not (kind == "umad" and device.protocol not in {"ib", "roce"}):
            yield Finding(device.name, grade, f"has no {kind} file, {need}: modprobe {module}")


def _unlinked(host: HostDiagnostics) -> Iterator[Finding]:
    if host.unlinked and host.own_dev:
        text = (
            "this container has its own /dev, so it is unknown whether the host's /dev has the "
            f"kernel's {len(host.unlinked)} files; on the host: ls /dev/infiniband"
        )
        yield Finding("/dev/infiniband", Severity.NOTE, text)
        return
    for path in host.unlinked:
        yield Finding(
            path, Severity.BAD, "the kernel has it, /dev does not: check udev, which creates it"
        )


def _memlock(limit: int | None) -> Finding:
    size = "unlimited" if limit is None else f"{limit} bytes"
    text = f"{size} for this process; RDMA containers get theirs from the plugin's --memlock"
    return Finding("locked memory", Severity.NOTE, text)


def _same_host(kernel: tuple[int, int]) -> Finding:
    if kernel < SAME_HOST_IPOIB:
        text = "before Linux 5.8 two pods of one host may not reach each other over IPoIB"
        return Finding("IPoIB", Severity.WARNING, text)
    return Finding("IPoIB", Severity.OK, "pods of one host reach each other")


def _gpu_direct(host: HostDiagnostics) -> Finding:
    subject = "GPUDirect RDMA"
    loaded = sorted(_PEERMEM & host.modules)
    if loaded:
        return Finding(subject, Severity.OK, f"{loaded[0]} is loaded")
    if "Open Kernel Module" in host.nvidia and host.kernel >= DMA_BUF:
        text = "by dma-buf: GPU driver and kernel support it; the RDMA library must support it too"
        return Finding(subject, Severity.OK, text)
    text = "the NICs cannot access GPU memory: modprobe nvidia-peermem, after the RDMA drivers"
    return Finding(subject, Severity.WARNING, text)


def _nri(host: HostDiagnostics, socket: Path) -> Finding:
    """Return whether NRI is available to a plugin that is not connected."""
    subject = "NRI"
    if host.containerd and host.containerd.nri is False:
        text = f"containerd's settings switch it off; set {CONTAINERD_NRI}"
        return Finding(subject, Severity.BAD, text)
    if host.crio and host.crio.nri is False:
        return Finding(subject, Severity.BAD, f"CRI-O's settings switch it off; set {CRIO_NRI}")
    match host.nri:
        case True:
            return Finding(subject, Severity.OK, f"on: the runtime's socket {socket} is there")
        case None:
            return Finding(
                subject, Severity.NOTE, f"{socket} cannot be read; run the command as root"
            )
        case False:
            return Finding(subject, Severity.BAD, f"no socket {socket}: {_no_socket(host, socket)}")
        case _:
            assert_never(host.nri)


def _no_socket(host: HostDiagnostics, socket: Path) -> str:
    file, crio = host.containerd, host.crio
    if file and file.nri_socket and _below_run(file.nri_socket) != _below_run(str(socket)):
        return (
            f"containerd's settings put it at {file.nri_socket}; set this path for the "
            "plugin (--nri-socket; chart: nri.socket), and mount its directory into the container"
        )
    ways = [CONTAINERD_NRI] if file or not crio else []
    ways += [CRIO_NRI] if crio or not file else []
    off = "NRI is off (default of containerd 1.7 and CRI-O before 1.30), or no runtime runs"
    other = "if the plugin has another --nri-socket, give that here, too"
    return f"{off}; set {'; or '.join(ways)}; {other}"


def _below_run(path: str) -> str:
    return path.removeprefix("/var") if path.startswith("/var/run/") else path


def _cdi_read_elsewhere(host: HostDiagnostics) -> Finding | None:
    """Return a finding if the runtime does not read the plugin's CDI directory, else None."""
    configured = {
        "containerd": host.containerd.cdi_dirs if host.containerd else None,
        "CRI-O": host.crio.cdi_dirs if host.crio else None,
    }
    for runtime, dirs in configured.items():
        if dirs is not None and not CDI_DIRS & {directory.rstrip("/") for directory in dirs}:
            text = f"{runtime} reads specs in {', '.join(dirs) or 'no directory'} only, so every"
            remedy = "container of a claim waits: add /var/run/cdi to cdi_spec_dirs, and restart it"
            return Finding("CDI", Severity.BAD, f"{text} {remedy}")
    return None


def _cdi(file: ContainerdFile | None) -> Finding:
    subject = "CDI"
    if file is None:
        text = (
            "no configuration of containerd found: CDI is on in containerd 2 and CRI-O, off in 1.7"
        )
        return Finding(subject, Severity.NOTE, text)
    if file.error:
        return Finding(
            subject, Severity.NOTE, f"containerd's settings are unreadable: {file.error}"
        )
    off = "a container can start without its NIC; set enable_cdi = true"
    match file.cdi, file.version:
        case True, _:
            return Finding(subject, Severity.OK, "containerd's settings switch it on")
        case False, _:
            return Finding(subject, Severity.BAD, f"containerd's settings switch it off; {off}")
        case None, 3:
            return Finding(
                subject, Severity.OK, "on, unless a file that the settings import disables it"
            )
        case _:
            return Finding(subject, Severity.WARNING, f"off if this is containerd 1.7; {off}")


def _limits(device: VerbsDevice) -> str:
    paging = {True: "on-demand paging", False: "no on-demand paging", None: ""}
    ports = (
        f"port {port.number}: MTU {port.active_mtu} of {port.max_mtu}, "
        f"{port.lanes} x {port.lane_mbps / 1000:g} Gb/s"
        for port in device.ports
    )
    size = "any size" if device.max_mr_size == ANY_SIZE else f"{device.max_mr_size} bytes"
    words = (
        f"opens; {device.max_qp} QPs of {device.max_qp_wr}",
        f"{device.max_mr} regions of {size}",
        f"atomics: {device.atomic or 'unknown'}",
        paging[device.on_demand_paging],
        *ports,
    )
    return ", ".join(filter(None, words))
