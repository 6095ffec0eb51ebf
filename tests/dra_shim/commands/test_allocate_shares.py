"""Repeated `dra-shim allocate` of NICs that several claims share."""

import json
from pathlib import Path

import pytest

from dranet_nri.model import Consumed
from dranet_nri.state.record import VERSION
from tests.dra_shim.commands.shim_bench import Shim, lines, nic

pytestmark = pytest.mark.process


SHARE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s, namespace: default}
spec:
  devices:
    requests:
    - name: nic
      exactly: {deviceClassName: dranet, capacity: {requests: {dra.net/bandwidth: %s}}}
"""
EITHER = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: either, namespace: default}
spec:
  devices:
    requests:
    - name: nic
      firstAvailable:
      - {name: most, deviceClassName: dranet, capacity: {requests: {dra.net/bandwidth: 90G}}}
      - {name: some, deviceClassName: dranet, capacity: {requests: {dra.net/bandwidth: 10G}}}
"""
BANDWIDTH = "dra.net/bandwidth"


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    """Return the program on a node with one NIC, of 100 Gbit/s and with RDMA."""
    shim = Shim(tmp_path)
    hca = nic(1, 0) | {"rdmaDevices": ["mlx5_0"]}
    hca["attributes"] = {"dra.net/ifName": "eth1", "dra.net/linkSpeed": 100_000}
    shim.write("inventory.json", json.dumps({"devices": [hca], "excluded": []}))
    return shim


def share(shim: Shim, name: str, amount: str) -> tuple[int, list[str]]:
    """Allocate a share to a new pod; return the exit code and the lines of standard error."""
    shim.write(f"{name}.yaml", SHARE % (name, amount))
    return allocate(shim, name)


def allocate(shim: Shim, name: str) -> tuple[int, list[str]]:
    done = shim.allocate(
        "--shared", "true", "--container", f"main={name}", pod=name, claim=f"{name}.yaml"
    )
    return done.returncode, lines(done.stderr)


def consumed(shim: Shim) -> dict[str, tuple[Consumed, ...]]:
    with shim.records() as reader:
        return {record.claim.name: record.devices[0].consumed for record in reader.records()}


def test_successive_allocations_do_not_exceed_the_capacity_of_a_nic(shim: Shim) -> None:
    first = share(shim, "first", "60G")
    second = share(shim, "second", "50G")
    third = share(shim, "third", "40G")

    title = "claim default/second: request nic: "
    assert first == third == (0, [])
    assert second == (
        1,
        [
            f"{title}needs 1 device, but no 1 of the 1 that fit go together; free a device, or "
            "relax the selectors or constraints, or ask for less capacity",
            f"{title}device pci-0000-01-00-0: capacity {BANDWIDTH}: needs 50G, 40G is left",
        ],
    )
    assert consumed(shim) == {
        "first": (Consumed(BANDWIDTH, 60 * 10**9),),
        "third": (Consumed(BANDWIDTH, 40 * 10**9),),
    }


def test_released_capacity_can_be_allocated_again(shim: Shim) -> None:
    share(shim, "first", "60G")
    assert share(shim, "second", "50G")[0] == 1

    released = shim.release("--pod", "first")

    assert released.returncode == 0, released.stderr
    assert share(shim, "second", "50G") == (0, [])


def test_record_of_the_previous_version_consumes_no_capacity(shim: Shim) -> None:
    share(shim, "first", "60G")
    (path,) = (shim.directory / "state/allocations").glob("*.json")
    record = json.loads(path.read_text())
    del record["devices"][0]["consumed"]
    path.write_text(json.dumps(record | {"version": VERSION - 1}))

    assert share(shim, "second", "50G") == (0, [])
    assert consumed(shim)["first"] == ()


def test_next_alternative_is_allocated_and_recorded_if_capacity_is_short(shim: Shim) -> None:
    share(shim, "first", "60G")
    shim.write("either.yaml", EITHER)

    assert allocate(shim, "either") == (0, [])

    with shim.records() as reader:
        (device,) = (
            record.devices[0] for record in reader.records() if record.claim.name == "either"
        )
    assert (device.request, device.subrequest) == ("nic", "some")
    assert device.consumed == (Consumed(BANDWIDTH, 10 * 10**9),)
