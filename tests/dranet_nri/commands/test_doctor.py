"""Findings and diagnostics of `doctor`."""

import json
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.commands.doctor import (
    azure_findings,
    findings,
    name_findings,
    verbs_findings,
)
from dranet_nri.component.findings import Finding, show_findings
from dranet_nri.component.output import fields_of
from dranet_nri.facts.diagnostics import HostDiagnostics, HostPaths, read_diagnostics
from dranet_nri.facts.runtime_config import ContainerdFile, CrioFiles
from dranet_nri.facts.verbs import VerbsDevice, VerbsFailure, VerbsPort
from dranet_nri.inventory import AzureHost, PciFunction, RdmaDeviceFacts, RdmaPortFacts
from dranet_nri.linux.release import release
from dranet_nri.model import RdmaMode
from tests.fakes.sysfs import FakeSysfs

pytestmark = pytest.mark.process


PORT = RdmaPortFacts(1, "ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand", phys_state="LinkUp")
HCA = RdmaDeviceFacts("mlx5_0", node_guid="0c42:a103:0065:5a1e", ports=(PORT,), protocol="ib")
WELL = HostDiagnostics(
    kernel=(6, 18),
    mode=RdmaMode.EXCLUSIVE,
    files={"mlx5_0": frozenset({"uverbs", "rdma_cm", "umad"})},
    containerd=ContainerdFile(3),
)
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15"


def lines(found: list[Finding]) -> list[str]:
    return [f"{finding.grade} {finding.subject}: {finding.text}" for finding in found]


def graded(subject: str, diagnostics: HostDiagnostics, *rdma: RdmaDeviceFacts) -> str:
    """Return the grade and the beginning of what is found on a subject."""
    (found,) = (
        finding for finding in findings(rdma or (HCA,), diagnostics) if finding.subject == subject
    )
    return f"{found.grade} {found.text}"


def test_healthy_node_has_no_bad_findings() -> None:
    assert lines(list(findings((HCA,), WELL))) == [
        "ok RDMA mode: exclusive: an RDMA device moves into the pod, and no other pod has it",
        "ok mlx5_0 port 1: ib, ACTIVE, LinkUp, 400 Gb/sec (4X NDR)",
        "note locked memory: unlimited for this process; RDMA containers get theirs from the "
        "plugin's --memlock",
        "ok IPoIB: pods of one host reach each other",
        "ok CDI: on, unless a file that the settings import disables it",
    ]


def test_node_without_rdma_devices_has_only_mode_and_cdi_findings() -> None:
    found = list(findings((), HostDiagnostics()))

    assert [finding.subject for finding in found] == ["RDMA mode", "CDI"]
    assert found[0].text.startswith("no RDMA device on the host")


@pytest.mark.parametrize(
    ("mode", "beginning"),
    [(RdmaMode.SHARED, "ok shared: every pod lists"), (None, "warning the kernel has no RDMA net")],
)
def test_rdma_mode_is_explained(mode: RdmaMode | None, beginning: str) -> None:
    assert graded("RDMA mode", replace(WELL, mode=mode)).startswith(beginning)


def test_missing_device_file_is_reported_with_its_kernel_module() -> None:
    found = findings((HCA,), replace(WELL, files={}))

    assert [line for line in lines(list(found)) if "modprobe" in line] == [
        "bad mlx5_0: has no uverbs file, nothing can use the device: modprobe ib_uverbs",
        "warning mlx5_0: has no rdma_cm file, programs that connect by IP address need it: "
        "modprobe rdma_ucm",
        "note mlx5_0: has no umad file, only ibstat and similar tools need it: modprobe ib_umad",
    ]


def test_missing_umad_file_is_ignored_on_a_device_without_a_management_agent() -> None:
    efa = RdmaDeviceFacts("efa_0")
    observed = replace(WELL, files={"efa_0": frozenset({"uverbs", "rdma_cm"})})

    assert not [finding for finding in findings((efa,), observed) if finding.subject == "efa_0"]


def test_device_file_missing_in_dev_is_bad() -> None:
    observed = replace(WELL, unlinked=("/dev/infiniband/uverbs0",))

    assert graded("/dev/infiniband/uverbs0", observed).startswith("bad the kernel has it")


def test_missing_device_files_are_not_reported_inside_a_container_with_its_own_dev() -> None:
    observed = replace(WELL, unlinked=("/dev/infiniband/uverbs0",), own_dev=True)

    assert graded("/dev/infiniband", observed).startswith("note this container has its own /dev")
    assert not [finding for finding in findings((HCA,), observed) if "uverbs0" in finding.subject]


@pytest.mark.parametrize(
    ("mounts", "owner"),
    [
        ("23 1 0:5 / {dev} rw - devtmpfs udev rw", "host"),
        ("23 1 0:50 / {dev} rw,nosuid shared:7 - tmpfs tmpfs rw", "container"),
        ("23 1 0:50 / {dev} rw - tmpfs tmpfs rw\n24 23 0:5 / {dev} rw - devtmpfs udev rw", "host"),
        ("23 1 0:50 / {dev}/shm rw - tmpfs shm rw", "host"),
        ("garbage", "host"),
        ("", "host"),
    ],
    ids=["host", "container", "the host's on top", "another place", "garbage", "nothing"],
)
def test_owner_of_dev_is_read_from_the_mount_table(tmp_path: Path, mounts: str, owner: str) -> None:
    places = HostPaths(tmp_path / "sys", tmp_path / "proc", tmp_path / "dev", tmp_path / "none")
    if mounts:
        (places.proc / "self").mkdir(parents=True)
        (places.proc / "self/mountinfo").write_text(mounts.format(dev=places.dev) + "\n")

    assert read_diagnostics((), places).own_dev is (owner == "container")


def test_port_down_and_blank_guid_are_warnings() -> None:
    down = replace(PORT, state="DOWN", phys_state="Polling", rate="")
    blank = replace(HCA, node_guid="0000:0000:0000:0000", ports=(down, RdmaPortFacts(2)))

    found = [
        finding for finding in findings((blank,), WELL) if finding.subject.startswith("mlx5_0")
    ]

    assert lines(found) == [
        "warning mlx5_0: its GUID is all zeros: give the VF one before its driver binds",
        "warning mlx5_0 port 1: ib, DOWN, Polling",
        "warning mlx5_0 port 2: ib, state unknown",
    ]


def test_ipoib_between_pods_of_one_host_requires_linux_5_8() -> None:
    assert graded("IPoIB", replace(WELL, kernel=(5, 7))).startswith("warning before Linux 5.8")
    assert graded("IPoIB", replace(WELL, kernel=(5, 8))).startswith("ok")


@pytest.mark.parametrize(
    ("nvidia", "modules", "kernel", "beginning"),
    [
        (CLOSED, {"nvidia_peermem"}, (5, 4), "ok nvidia_peermem is loaded"),
        (OPEN, set(), (6, 18), "ok by dma-buf"),
        (OPEN, set(), (5, 11), "warning the NICs cannot access GPU memory"),
        (CLOSED, {"nvidia"}, (6, 18), "warning the NICs cannot access GPU memory"),
    ],
)
def test_gpudirect_rdma_path_is_reported(
    nvidia: str, modules: set[str], kernel: tuple[int, int], beginning: str
) -> None:
    observed = replace(WELL, nvidia=nvidia, modules=frozenset(modules), kernel=kernel)

    assert graded("GPUDirect RDMA", observed).startswith(beginning)


@pytest.mark.parametrize(
    ("file", "beginning"),
    [
        (None, "note no configuration of containerd found"),
        (ContainerdFile(error="line 1"), "note containerd's settings are unreadable: line 1"),
        (ContainerdFile(2, cdi=True), "ok containerd's settings switch it on"),
        (ContainerdFile(3, cdi=False), "bad containerd's settings switch it off"),
        (ContainerdFile(3), "ok on, unless"),
        (ContainerdFile(2), "warning off if this is containerd 1.7"),
        (ContainerdFile(), "warning off if this is containerd 1.7"),
    ],
)
def test_containerd_cdi_settings_are_reported(file: ContainerdFile | None, beginning: str) -> None:
    assert graded("CDI", replace(WELL, containerd=file)).startswith(beginning)


@pytest.mark.parametrize(
    ("containerd", "crio", "beginning"),
    [
        (("/etc/cdi",), None, "bad containerd reads specs in /etc/cdi only"),
        ((), None, "bad containerd reads specs in no directory only"),
        (("/etc/cdi", "/var/run/cdi/"), None, "ok"),
        (("/run/cdi",), None, "ok"),
        (None, ("/etc/cdi", "/x"), "bad CRI-O reads specs in /etc/cdi, /x only"),
        (None, ("/var/run/cdi",), "ok"),
    ],
)
def test_runtime_with_other_cdi_directories_is_reported(
    containerd: tuple[str, ...] | None, crio: tuple[str, ...] | None, beginning: str
) -> None:
    file, files = ContainerdFile(3, cdi=True, cdi_dirs=containerd), CrioFiles(cdi_dirs=crio)

    assert graded("CDI", replace(WELL, containerd=file, crio=files)).startswith(beginning)


@pytest.mark.parametrize(
    ("text", "version"),
    [("6.18.2-amd64", (6, 18)), ("5.15", (5, 15)), ("next", (0, 0))],
)
def test_kernel_release_is_parsed_into_two_numbers(text: str, version: tuple[int, int]) -> None:
    assert release(text) == version


def test_host_diagnostics_are_read_below_the_given_paths(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path / "sys")
    host.char_device("infiniband_verbs", "uverbs0", "231:192", "mlx5_0")
    host.char_device("misc", "rdma_cm", "10:121")
    host.write("module/nvidia_peermem/refcnt", "0")
    (tmp_path / "dev/infiniband").mkdir(parents=True)
    (tmp_path / "dev/infiniband/uverbs0").touch()
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(f"{OPEN}\nGCC version: 13\n")

    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    places = HostPaths(tmp_path / "sys", tmp_path / "proc", tmp_path / "dev", tmp_path / "none")
    observed = read_diagnostics((HCA,), places)

    assert observed.files == {"mlx5_0": frozenset({"uverbs", "rdma_cm"})}
    assert observed.unlinked == ("/dev/infiniband/rdma_cm",)
    assert observed.modules == {"nvidia_peermem"}
    assert observed.nvidia == OPEN
    assert observed.memlock == (None if limit == resource.RLIM_INFINITY else limit)
    assert observed.containerd is None


DEVICE = VerbsDevice(
    name="mlx5_0",
    max_qp=131072,
    max_qp_wr=32768,
    max_cq=1,
    max_mr=1024,
    max_mr_size=4096,
    atomic="device",
    on_demand_paging=True,
    ports=(VerbsPort(1, 4096, 4096, 4, 2500, 1, 1),),
)


def test_opened_device_is_reported_with_its_limits_and_a_failed_one_with_its_error() -> None:
    without_limits = replace(DEVICE, name="rxe0", max_mr_size=2**64 - 1, atomic="")
    without_limits = replace(without_limits, on_demand_paging=None, ports=())

    found = verbs_findings((DEVICE, without_limits, VerbsFailure("mlx5_1", "EIO")), installed=True)

    assert lines(list(found)) == [
        "ok mlx5_0: opens; 131072 QPs of 32768, 1024 regions of 4096 bytes, atomics: device, "
        "on-demand paging, port 1: MTU 4096 of 4096, 4 x 2.5 Gb/s",
        "ok rxe0: opens; 131072 QPs of 32768, 1024 regions of any size, atomics: unknown",
        "bad mlx5_1: cannot be opened: EIO",
    ]


def test_missing_pyverbs_is_reported() -> None:
    (found,) = verbs_findings((), installed=False)

    assert lines([found]) == [
        "note verbs: not tested: pyverbs is not installed (Debian: python3-pyverbs, for its own "
        "Python)"
    ]


V5_GPUS = frozenset({"0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c"})


@pytest.mark.parametrize(
    ("host", "message"),
    [
        (None, []),
        (AzureHost(V5_GPUS), ["ok Azure: NUMA nodes and GPUs of the NICs are derived"]),
        (AzureHost(), ["note Azure: NUMA node and GPUs of the NICs are unknown"]),
    ],
    ids=["elsewhere", "with-gpus", "without"],
)
def test_azure_topology_is_derived_from_the_gpus_or_requires_a_flag(
    host: AzureHost | None, message: list[str]
) -> None:
    found = lines(list(azure_findings(host)))

    assert [
        line[: len(beginning)] for line, beginning in zip(found, message, strict=True)
    ] == message
    assert all("--azure-size" in line for line in found if line.startswith("note"))


def test_missing_pci_id_database_is_reported() -> None:
    known, unknown = (
        PciFunction(address, "igb", vendor_name=name)
        for address, name in (("0000:01:00.0", "Intel Corporation"), ("0000:02:00.0", "unknown"))
    )

    (line,) = lines(list(name_findings([unknown])))

    assert line.startswith("warning")
    assert "install the PCI ID database" in line
    assert list(name_findings([known, unknown])) == []
    assert list(name_findings([])) == []


def test_table_output_has_one_line_per_finding_and_a_bad_finding_fails_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = list(findings((HCA,), replace(WELL, unlinked=("/dev/infiniband/uverbs0",))))

    assert show_findings("table", found) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("ok     RDMA mode                exclusive: ")
    assert show_findings("table", found[:2]) == 0


def test_json_output_has_findings_and_typed_values(capsys: pytest.CaptureFixture[str]) -> None:
    found = list(verbs_findings((DEVICE,), installed=True))

    show_findings("json", found, verbs=[fields_of(DEVICE)])

    document = json.loads(capsys.readouterr().out)
    assert document["findings"][0]["grade"] == "ok"
    assert document["verbs"][0]["maxQp"] == 131072
    assert document["verbs"][0]["ports"][0]["activeMtu"] == 4096
