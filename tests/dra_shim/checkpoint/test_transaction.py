"""The allocation records as one transaction, and the devices that they reserve."""

import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from errno import EDQUOT, EIO, ENOSPC, ENOTDIR, EROFS
from pathlib import Path

import pytest

from dra_shim.checkpoint.transaction import CheckpointTransaction, UnwritableError, observe
from dra_shim.pool import DeviceUsage
from dra_shim.settings.common import StatePaths
from dranet_nri.component.files import FileSystem
from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    Consumed,
    Device,
    DeviceKey,
    NetnsId,
    ObjectRef,
    Phase,
)
from dranet_nri.state.store import AttachmentStore
from tests.dranet_nri.state.examples import SNAPSHOT

pytestmark = pytest.mark.process


POD = ObjectRef("default", "train", "p1")
OTHER_POD = ObjectRef("default", "other", "p2")


@pytest.fixture
def state(tmp_path: Path) -> StatePaths:
    return StatePaths(tmp_path / "state", tmp_path / "run")


def device(name: str) -> Device:
    return Device(name, DeviceKey("", "", name))


def allocation(name: str, uid: str, *devices: str, pod: ObjectRef = POD) -> Allocation:
    devices_of_claim = tuple(AllocatedDevice("nic", "node", device(name)) for name in devices)
    return Allocation(ObjectRef("default", name, uid), pod, devices_of_claim, "abc", "boot")


def shares(
    name: str, uid: str, *amounts: tuple[str, int], admin_access: bool = False
) -> Allocation:
    """Return a record of shares, each of the given amount of capacity x, and 1 of y."""
    devices_of_claim = (
        AllocatedDevice(
            "nic",
            "node",
            device(entry),
            admin_access=admin_access,
            share_id=f"{uid}-{entry}",
            consumed=(Consumed("x", amount), Consumed("y", 1)),
        )
        for entry, amount in amounts
    )
    return replace(allocation(name, uid), devices=tuple(devices_of_claim))


class FailingFs(FileSystem):
    """Fails every new file after the first few."""

    def __init__(self, good: int) -> None:
        self.left = good

    def create(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(ENOSPC, "No space left on device")
        super().create(path, data, mode, durable=durable)


def names(state: StatePaths) -> set[str]:
    return {path.name for path in state.allocations.glob("*.json")}


def test_several_records_are_written_in_one_transaction(state: StatePaths) -> None:
    with CheckpointTransaction(state) as transaction:
        transaction.record([allocation("a", "u1", "d1"), allocation("b", "u2", "d2")])

        assert transaction.in_use().whole == {
            "d1": "claim default/a of pod default/train",
            "d2": "claim default/b of pod default/train",
        }
        assert [name.name for name in transaction.recorded_devices()] == ["d1", "d2"]
    assert names(state) == {"u1.json", "u2.json"}


def test_removed_state_directory_is_created_by_the_next_transaction(state: StatePaths) -> None:
    transaction = CheckpointTransaction(state, keep=True)
    for uid, removed in (("u1", state.allocations), ("u2", state.directory)):
        with transaction:
            transaction.record([allocation("old", "old", "d0")])
        shutil.rmtree(removed)

        with transaction:
            transaction.record([allocation("a", uid, "d1")])

        assert names(state) == {f"{uid}.json"}
        assert state.directory.stat().st_mode & 0o777 == 0o755
        assert transaction.peek("old") == ()
    transaction.close()


def test_failed_write_of_several_records_leaves_the_state_unchanged(state: StatePaths) -> None:
    old = allocation("a", "u1", "d1")
    with CheckpointTransaction(state) as transaction:
        transaction.record([old])
    fs = FailingFs(1)

    with CheckpointTransaction(state, fs=fs) as transaction:
        with pytest.raises(UnwritableError) as caught:
            transaction.record([allocation("b", "u2", "d2"), allocation("c", "u3", "d3")])

        assert caught.value.errno == ENOSPC
        assert transaction.recorded(old.claim, POD) == old
        assert transaction.by_uid("u2") == ()
    assert names(state) == {"u1.json"}


@pytest.mark.parametrize(
    ("error", "reason", "remedy"),
    [
        (OSError(ENOSPC, "No space left on device"), "No space left on device", "make room there"),
        (OSError(EDQUOT, "Disk quota exceeded"), "Disk quota exceeded", "make room there"),
        (
            OSError(EROFS, "Read-only file system", "/x/u1.json"),
            "Read-only file system (/x/u1.json)",
            "make it writable",
        ),
        (OSError(EIO, "Input/output error"), "Input/output error", "see the kernel's log (dmesg)"),
        (OSError(ENOTDIR, "Not a directory"), "Not a directory", "check the path"),
        (OSError("no errno"), "no errno", "make it writable"),
    ],
    ids=["full", "quota", "read-only", "broken", "file", "unnamed"],
)
@pytest.mark.parametrize(
    "write",
    [
        lambda transaction: transaction.record([allocation("a", "u1", "d1")]),
        lambda transaction: transaction.forget("u1"),
    ],
    ids=["record", "forget"],
)
def test_unwritable_state_directory_is_reported_with_the_remedy(
    state: StatePaths,
    error: OSError,
    reason: str,
    remedy: str,
    write: Callable[[CheckpointTransaction], None],
) -> None:
    class RefusingFs(FileSystem):
        def create(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
            raise error

        def write(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
            raise error

        def unlink(self, path: Path) -> None:
            raise error

    with (
        CheckpointTransaction(state, fs=RefusingFs()) as transaction,
        pytest.raises(UnwritableError) as caught,
    ):
        write(transaction)

    expected = f"state directory {state.directory}: cannot be written: {reason}; {remedy}"
    assert str(caught.value) == expected
    assert caught.value.errno == error.errno


def test_released_claim_is_refused_to_others_until_its_devices_are_on_the_host(
    state: StatePaths,
) -> None:
    claim, other = ObjectRef("default", "a", "u1"), ObjectRef("default", "next", "p2")
    attached = AttachedDevice("nic", allocation("a", "u1", "d1").devices[0].device)
    there = NetnsId("/run/netns/x", 1, 2)
    held = Attachment(claim, POD, "sandbox1", there, Phase.ATTACHED, (attached,))
    back = replace(held, phase=Phase.RESTORED, devices=(replace(attached, restored=True),))
    with AttachmentStore(state.attachments) as attachments:
        attachments.put(held)
        with CheckpointTransaction(state) as transaction:
            assert transaction.recorded(claim, POD) is None
            with pytest.raises(RefusedError, match="has not released its devices"):
                transaction.recorded(claim, other)
        attachments.put(back)

        with CheckpointTransaction(state) as transaction:
            assert transaction.recorded(claim, other) is None


def test_changed_record_is_restored_when_a_later_record_fails(state: StatePaths) -> None:
    old = allocation("a", "u1", "d1")
    with CheckpointTransaction(state) as transaction:
        transaction.record([old])
        unusable = allocation("bad name", "u2", "d2")

        with pytest.raises(Exception, match="bad name"):
            transaction.record([replace(old, nonce="new"), unusable])

        assert transaction.by_uid("u1") == (old,)
        assert transaction.by_uid("u2") == ()


def test_signal_is_handled_after_all_records_are_written(state: StatePaths) -> None:
    class Interrupting(FileSystem):
        def create(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # gRPC has threads here
            super().create(path, data, mode, durable=durable)

    with CheckpointTransaction(state, fs=Interrupting()) as transaction:
        with pytest.raises(KeyboardInterrupt):
            transaction.record([allocation("a", "u1", "d1"), allocation("b", "u2", "d2")])

        assert {record.claim.uid for record in transaction.of_pod("p1")} == {"u1", "u2"}


def test_record_of_a_pod_is_found_by_claim_uid_or_name(state: StatePaths) -> None:
    record = allocation("a", "u1", "d1")
    with CheckpointTransaction(state) as transaction:
        transaction.record([allocation("z", "u0", "d0"), record])

        assert transaction.recorded(ObjectRef("default", "a", "u1"), POD) == record
        assert transaction.recorded(ObjectRef("default", "a", ""), POD) == record
        assert transaction.recorded(ObjectRef("other", "a", ""), POD) is None
        assert transaction.named("default", "a") == (record,)


@pytest.mark.parametrize(
    ("claim", "pod", "expected"),
    [
        (ObjectRef("default", "a", "u1"), OTHER_POD, "in use by pod default/train (UID p1)"),
        (ObjectRef("default", "a", ""), OTHER_POD, "release --claim-uid u1 when that pod is gone"),
        (ObjectRef("default", "a", "u9"), POD, "the name is still allocated under UID u1 to pod"),
    ],
    ids=["another-pod", "another-pod-by-name", "a-namesake"],
)
def test_claim_held_by_another_pod_is_refused_with_the_holder(
    state: StatePaths, claim: ObjectRef, pod: ObjectRef, expected: str
) -> None:
    with CheckpointTransaction(state) as transaction:
        transaction.record([allocation("a", "u1", "d1")])

        with pytest.raises(RefusedError) as caught:
            transaction.recorded(claim, pod)

    assert expected in str(caught.value)


def test_record_of_a_newer_version_refuses_only_its_own_claim(state: StatePaths) -> None:
    state.allocations.mkdir(parents=True)
    (state.allocations / "u1.json").write_text('{"version":99}')

    with CheckpointTransaction(state) as transaction:
        (damage,) = transaction.corrupt_records()
        with pytest.raises(RefusedError, match="its record cannot be used"):
            transaction.recorded(ObjectRef("default", "a", "u1"), POD)
        assert transaction.recorded(ObjectRef("default", "b", "u2"), POD) is None

    assert damage.claim_uid == "u1"
    assert damage.broken.blocking


def test_corrupt_record_is_quarantined_and_its_claim_can_be_allocated_again(
    state: StatePaths,
) -> None:
    state.allocations.mkdir(parents=True)
    (state.allocations / "u1.json").write_text("{")

    with CheckpointTransaction(state) as transaction:
        assert transaction.recorded(ObjectRef("default", "a", "u1"), POD) is None
        transaction.record([allocation("a", "u1")])

    with CheckpointTransaction(state) as transaction:
        assert transaction.corrupt_records() == ()
    assert (state.allocations / "quarantine" / "u1.json.1").read_text() == "{"


def test_admin_access_result_neither_reserves_its_device_nor_keeps_its_facts(
    state: StatePaths,
) -> None:
    watching = replace(
        allocation("a", "u1"),
        devices=(AllocatedDevice("nic", "node", device("d1"), admin_access=True),),
    )
    with CheckpointTransaction(state) as transaction:
        transaction.record([watching])

        assert transaction.in_use().whole == {}
        assert transaction.recorded_devices() == ()
    assert observe(state) == ((), DeviceUsage())


def test_consumed_capacity_is_the_sum_of_all_shares_but_the_excluded_ones(
    state: StatePaths,
) -> None:
    own_claim, other_claim = ObjectRef("default", "a", "u1"), ObjectRef("default", "b", "u2")
    older = shares("older", "u4", ("d3", 1))
    with CheckpointTransaction(state) as transaction:
        transaction.record(
            [shares("a", "u1", ("d1", 20), ("d2", 3)), shares("b", "u2", ("d1", 30))]
        )
        transaction.record([shares("look", "u3", ("d1", 50), admin_access=True)])
        transaction.record([replace(older, devices=(replace(older.devices[0], consumed=()),))])

        consumed_by_all = transaction.in_use().consumed
        consumed_by_others = transaction.in_use((own_claim, POD)).consumed

    assert consumed_by_all == {"d1": {"x": 50, "y": 2}, "d2": {"x": 3, "y": 1}, "d3": {}}
    assert consumed_by_others == {"d1": {"x": 30, "y": 1}, "d3": {}}
    assert observe(state)[1].consumed == consumed_by_all
    counted_elsewhere = observe(state, {str(other_claim)})[1]
    assert counted_elsewhere.consumed["d1"] == {"x": 20, "y": 1}
    assert counted_elsewhere.shares.keys() == {"d1", "d2", "d3"}


TOUCHED = AttachedDevice("nic", device("d1"), snapshot=SNAPSHOT, snapshot_s=1)
UNTOUCHED = AttachedDevice("nic", device("d1"))
BACK = replace(TOUCHED, restored=True)


@pytest.mark.parametrize(
    ("phase", "attached", "in_use"),
    [
        (Phase.INTENT, UNTOUCHED, True),
        (Phase.ATTACHED, UNTOUCHED, True),
        (Phase.ATTACHED, TOUCHED, True),
        (Phase.DETACHING, TOUCHED, True),
        (Phase.DETACHING, BACK, False),
        (Phase.FAILED, UNTOUCHED, False),
        (Phase.FAILED, TOUCHED, True),
        (Phase.FAILED, BACK, False),
        (Phase.RESTORED, BACK, False),
    ],
    ids=[
        "attach begins", "attached and not moved", "in the pod", "detach begins", "just restored",
        "refused before the first operation", "undo failed", "undone", "detached",
    ],
)  # fmt: skip
def test_device_that_is_not_restored_on_the_host_is_in_use(
    state: StatePaths, phase: Phase, attached: AttachedDevice, in_use: bool  # noqa: FBT001 cases
) -> None:  # fmt: skip
    claim = ObjectRef("default", "a", "u1")
    netns = NetnsId("/run/netns/x", 1, 2)
    with AttachmentStore(state.attachments) as attachments:
        attachments.put(Attachment(claim, POD, "sandbox1", netns, phase, (attached,)))

    with CheckpointTransaction(state) as transaction:
        used = transaction.in_use().whole

    holder = "pod default/train, which has not released it (claim default/a)"
    assert used == ({"d1": holder} if in_use else {})


def test_lock_is_released_if_the_records_cannot_be_opened(state: StatePaths) -> None:
    state.directory.mkdir(parents=True)
    state.allocations.write_text("not a directory")
    transaction = CheckpointTransaction(state)
    with pytest.raises(UnwritableError, match=f"state directory {state.directory}: "):
        transaction.__enter__()
    state.allocations.unlink()

    with CheckpointTransaction(state) as second:
        second.forget("unknown")


def watches() -> int:
    """Return how many directories this process watches."""
    links = (path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    return sum("inotify" in str(link) for link in links)


def test_kept_transaction_stays_open_between_uses(state: StatePaths) -> None:
    before = watches()
    with CheckpointTransaction(state):
        pass
    assert watches() == before

    transaction = CheckpointTransaction(state, keep=True)
    for number in range(2):
        with transaction:
            transaction.record([allocation(f"c{number}", f"u{number}", f"d{number}")])
            assert [record.claim.name for record in transaction.records()] == ["c0", "c1"][
                : number + 1
            ]
            assert not transaction.may_be_attached("u0")
        assert watches() == before + 2
    transaction.close()
    transaction.close()

    assert watches() == before
