"""Files of the gate: order, modes, and state after any failure."""

import json
import stat
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from dranet_nri.cdi.edits import EditOptions
from dranet_nri.cdi.gate import Gate
from dranet_nri.cdi.metadata import metadata
from dranet_nri.cdi.names import cdi_ids
from dranet_nri.cdi.spec import cdi_spec
from dranet_nri.component.files import FileSystem
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    Device,
    DeviceKey,
    NetnsId,
    ObjectRef,
    Phase,
)
from tests.dranet_nri.state.failing import DeadFs, FailingFs

pytestmark = pytest.mark.process


UID = "6f1c0a52"
CLAIM, POD = ObjectRef("default", "nics", UID), ObjectRef("default", "web", "0b9d5b1e")
NICS = tuple(
    Device(f"nic-{n}", DeviceKey("pci", f"0000:0{n}:00.0", f"eth{n}", f"0000:0{n}:00.0"))
    for n in (1, 2)
)
ALLOCATION = Allocation(
    CLAIM, POD, tuple(AllocatedDevice(nic.name, "node", nic) for nic in NICS), "c0ffee", "8a1f"
)
ATTACHMENT = Attachment(
    CLAIM,
    POD,
    "sandbox-1",
    NetnsId("/run/netns/1", 4, 7),
    Phase.ATTACHED,
    tuple(AttachedDevice(nic.name, nic, pod_name=nic.key.name) for nic in NICS),
)
RENAMED = replace(
    ATTACHMENT,
    devices=(ATTACHMENT.devices[0], replace(ATTACHMENT.devices[1], pod_name="net2")),
)
OPTIONS = EditOptions()


@dataclass
class RecordingFs(FileSystem):
    """The real file system; records the changed targets in order."""

    changes: list[str] = field(default_factory=list)

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        self.changes.append(
            f"write {target.name if target.parent.name == 'cdi' else _tail(target)}"
        )

    def unlink(self, path: Path) -> None:
        if path.exists():
            assert (path.parent.parent / "metadata" / UID).exists(), "the spec goes first"
            self.changes.append(f"remove {path.name}")
        super().unlink(path)


def _tail(path: Path) -> str:
    return "/".join(path.parts[-2:])


def gate_in(root: Path, fs: FileSystem) -> Gate:
    """Return a gate below root."""
    return Gate(fs, root / "cdi", root / "metadata")


def files_in(root: Path) -> dict[str, bytes]:
    """Return every file below root with its content."""
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def content(attachment: Attachment) -> dict[str, bytes]:
    """Return the files of an open gate, by path below the root of the mounts."""
    return {
        f"metadata/{UID}/{request}/metadata.json": metadata(ALLOCATION, attachment, request)
        for request in ("nic-1", "nic-2")
    }


def spec(root: Path, attachment: Attachment) -> bytes:
    return cdi_spec(ALLOCATION, attachment, str(root / "metadata"), OPTIONS)


def test_open_gate_has_a_spec_with_all_ids_and_existing_mounted_files(
    tmp_path: Path,
) -> None:
    gate_in(tmp_path, FileSystem()).open(ALLOCATION, ATTACHMENT, OPTIONS)

    written = json.loads((tmp_path / "cdi" / f"dra.net-{UID}.json").read_bytes())
    assert [f"{written['kind']}={device['name']}" for device in written["devices"]] == [
        cdi_id for _, cdi_id in cdi_ids(ALLOCATION)
    ]
    sources = [device["containerEdits"]["mounts"][0]["hostPath"] for device in written["devices"]]
    assert all(Path(source).is_file() for source in sources)
    assert files_in(tmp_path) == {
        **content(ATTACHMENT),
        f"cdi/dra.net-{UID}.json": spec(tmp_path, ATTACHMENT),
    }


def test_open_writes_the_spec_last(tmp_path: Path) -> None:
    fs = RecordingFs()

    gate_in(tmp_path, fs).open(ALLOCATION, ATTACHMENT, OPTIONS)

    assert fs.changes == [
        "write nic-1/metadata.json",
        "write nic-2/metadata.json",
        f"write dra.net-{UID}.json",
    ]


def test_close_removes_the_spec_alone(tmp_path: Path) -> None:
    gate = gate_in(tmp_path, FileSystem())
    gate.open(ALLOCATION, ATTACHMENT, OPTIONS)
    whole = files_in(tmp_path)

    gate.close(UID)

    del whole[f"cdi/dra.net-{UID}.json"]
    assert files_in(tmp_path) == whole


def test_remove_removes_the_spec_first_and_leaves_no_files(tmp_path: Path) -> None:
    fs = RecordingFs()
    gate = gate_in(tmp_path, fs)
    gate.open(ALLOCATION, ATTACHMENT, OPTIONS)
    fs.changes.clear()

    gate.remove(UID)

    assert fs.changes == [f"remove dra.net-{UID}.json"]
    assert files_in(tmp_path) == {}
    assert not (tmp_path / "metadata" / UID).exists()


def test_close_of_a_closed_gate_looks_up_no_file(tmp_path: Path) -> None:
    """A failed lookup would delay the move of a device."""

    class NothingToRemove(FileSystem):
        def unlink(self, path: Path) -> None:
            raise AssertionError(path)

    gate = gate_in(tmp_path, NothingToRemove())
    gate.close(UID)
    gate.open(replace(ALLOCATION, claim=replace(CLAIM, uid="other")), ATTACHMENT, OPTIONS)
    whole = files_in(tmp_path)

    gate.close(UID)

    assert files_in(tmp_path) == whole


def test_startup_removes_staged_files_of_the_gate_and_keeps_foreign_files(
    tmp_path: Path,
) -> None:
    gate = gate_in(tmp_path, FileSystem())
    gate.open(ALLOCATION, ATTACHMENT, OPTIONS)
    whole = files_in(tmp_path)
    (tmp_path / "cdi" / ".other.com-gpu.json.new").write_text("half")
    for name in (f"cdi/.dra.net-{UID}.json.new", f"metadata/{UID}/nic-1/.metadata.json.new"):
        (tmp_path / name).write_text("half")

    gate.clear({UID})

    assert files_in(tmp_path) == {**whole, "cdi/.other.com-gpu.json.new": b"half"}


def test_startup_closes_the_gates_of_unknown_claims(tmp_path: Path) -> None:
    gate = gate_in(tmp_path, FileSystem())
    gate.open(ALLOCATION, ATTACHMENT, OPTIONS)
    whole = files_in(tmp_path)
    orphaned = replace(CLAIM, uid="stray")
    gate.open(replace(ALLOCATION, claim=orphaned), replace(ATTACHMENT, claim=orphaned), OPTIONS)
    (tmp_path / "metadata" / "half" / "nic-1").mkdir(parents=True)
    (tmp_path / "metadata" / "half" / "nic-1" / "metadata.json").write_text("{}")

    gate.clear({UID})

    assert files_in(tmp_path) == whole
    assert [path.name for path in (tmp_path / "metadata").iterdir()] == [UID]


def test_startup_on_a_new_node_removes_nothing(tmp_path: Path) -> None:
    gate_in(tmp_path, FileSystem()).clear(())

    assert list(tmp_path.iterdir()) == []


def test_open_of_an_open_gate_writes_nothing(tmp_path: Path) -> None:
    fs = RecordingFs()
    gate = gate_in(tmp_path, fs)
    gate.open(ALLOCATION, ATTACHMENT, OPTIONS)
    fs.changes.clear()

    gate.open(ALLOCATION, ATTACHMENT, OPTIONS)

    assert fs.changes == []


def test_open_of_an_open_gate_writes_only_changed_files(tmp_path: Path) -> None:
    fs = RecordingFs()
    gate = gate_in(tmp_path, fs)
    gate.open(ALLOCATION, ATTACHMENT, OPTIONS)
    fs.changes.clear()

    gate.open(ALLOCATION, RENAMED, OPTIONS)

    assert fs.changes == ["write nic-2/metadata.json", f"write dra.net-{UID}.json"]
    assert (tmp_path / "cdi" / f"dra.net-{UID}.json").read_bytes() == spec(tmp_path, RENAMED)


def test_gate_files_are_readable_by_all(tmp_path: Path) -> None:
    gate_in(tmp_path, FileSystem()).open(ALLOCATION, ATTACHMENT, OPTIONS)

    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in files_in(tmp_path)}
    assert modes == {0o644}


@pytest.mark.parametrize("kind", [FailingFs, DeadFs], ids=["a call fails", "the process dies"])
def test_failed_open_never_leaves_a_spec_with_missing_files(
    tmp_path: Path, kind: type[FailingFs]
) -> None:
    for n in count(1):
        root = tmp_path / str(n)
        fs = kind(n)
        try:
            gate_in(root, fs).open(ALLOCATION, ATTACHMENT, OPTIONS)
        except OSError:
            found = {name: data for name, data in files_in(root).items() if not _is_staged(name)}
            opened = f"cdi/dra.net-{UID}.json" in found
            assert not opened, "the last change opens the gate"
            assert found.items() <= content(ATTACHMENT).items(), "each file is whole or absent"
        gate = gate_in(root, FileSystem())
        gate.open(ALLOCATION, ATTACHMENT, OPTIONS)
        assert gate.claims() == (UID,)
        assert not any(map(_is_staged, files_in(root)))
        if not fs.broke:
            break

    assert n == 7, "two calls for each of three files failed in turn"


def test_failed_rewrite_leaves_the_old_or_the_new_spec(tmp_path: Path) -> None:
    for n in count(1):
        root = tmp_path / str(n)
        gate_in(root, FileSystem()).open(ALLOCATION, ATTACHMENT, OPTIONS)
        fs = FailingFs(n)
        try:
            gate_in(root, fs).open(ALLOCATION, RENAMED, OPTIONS)
        except OSError:
            found = (root / "cdi" / f"dra.net-{UID}.json").read_bytes()
            assert found == spec(root, ATTACHMENT)
        if not fs.broke:
            break

    assert n == 5, "two calls for each of two files failed in turn"
    assert files_in(tmp_path / "5")[f"cdi/dra.net-{UID}.json"] == spec(tmp_path / "5", RENAMED)


def test_failed_removal_of_a_spec_keeps_its_mounted_files(tmp_path: Path) -> None:
    gate_in(tmp_path, FileSystem()).open(ALLOCATION, ATTACHMENT, OPTIONS)
    before = files_in(tmp_path)

    with pytest.raises(OSError, match="injected"):
        gate_in(tmp_path, FailingFs(1)).remove(UID)

    assert files_in(tmp_path) == before


def test_list_of_open_gates_ignores_foreign_files(tmp_path: Path) -> None:
    gate = gate_in(tmp_path, FileSystem())
    assert gate.claims() == ()
    gate.open(ALLOCATION, ATTACHMENT, OPTIONS)
    other = replace(CLAIM, uid="0a")
    gate.open(replace(ALLOCATION, claim=other), replace(ATTACHMENT, claim=other), OPTIONS)
    for name in ("nvidia.com-gpu.json", f".dra.net-{UID}.json.new", "dra.net-x.yaml"):
        (tmp_path / "cdi" / name).write_text("{}")

    assert gate.claims() == ("0a", UID)


def test_claim_with_only_admin_access_has_no_gate_and_no_spec(
    tmp_path: Path,
) -> None:
    only_looks = tuple(replace(device, admin_access=True) for device in ALLOCATION.devices)

    gate_in(tmp_path, FileSystem()).open(
        replace(ALLOCATION, devices=only_looks), replace(ATTACHMENT, devices=()), OPTIONS
    )

    assert files_in(tmp_path) == {}


def _is_staged(name: str) -> bool:
    return name.endswith(".new")
