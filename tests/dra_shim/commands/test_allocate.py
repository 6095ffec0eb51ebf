"""`dra-shim allocate` from the command line: files, records, exit codes, errors."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from dranet_nri.cdi.names import cdi_ids
from dranet_nri.model import (
    ContainerClaim,
    DeviceKey,
    InterfaceConfig,
    NetworkConfig,
    ObjectRef,
    RouteConfig,
)
from tests.dra_shim.commands.shim_bench import (
    CLAIM,
    CLASS,
    ENVIRONMENT,
    TEMPLATE,
    Shim,
    command,
    lines,
)

pytestmark = pytest.mark.process


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    return Shim(tmp_path)


def test_claim_is_allocated_and_recorded_and_its_cdi_ids_are_printed(shim: Shim) -> None:
    done = shim.allocate("--pod-name", "default/train", "--container", "main=fast/nics",
                         "--output", "json")  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    (claim,) = json.loads(done.stdout)["claims"]
    with shim.records() as reader:
        (record,) = reader.records()
    assert record.claim == ObjectRef("default", "fast", claim["uid"])
    assert record.pod == ObjectRef("default", "train", "p1")
    assert [(device.request, device.pool, device.device.name) for device in record.devices] == [
        ("nics", "node-1", "pci-0000-02-00-0"),
        ("nics", "node-1", "pci-0000-03-00-0"),
    ]
    assert record.devices[0].device.key == DeviceKey("pci", "0000:02:00.0", "eth2", "0000:02:00.0")
    assert record.devices[0].config == NetworkConfig(
        InterfaceConfig(mtu=4000), (RouteConfig("10.9.0.0/16", scope=253),)
    )
    assert record.containers == (ContainerClaim("main", "nics"),)
    assert len(record.nonce) == 16
    assert [(device["request"], device["id"]) for device in claim["cdi"]] == list(cdi_ids(record))
    assert claim["cdi"][0]["id"] == f"dra.net/nic=default_fast_nics_{record.nonce}"
    assert [device["interface"] for device in claim["devices"]] == ["eth2", "eth3"]


NAMED = CLAIM.replace("{mtu: 4000}", "{name: net1}")


def test_interface_name_for_several_devices_is_refused_and_explained(shim: Shim) -> None:
    shim.write("named.yaml", NAMED)

    done = shim.allocate(claim="named.yaml")
    explained = shim.run(
        "explain", "--claim", "named.yaml", "--class", "class.yaml",
        "--inventory", "inventory.json", "--state-dir", "state", "--run-dir", "run",
    )  # fmt: skip

    line = 'interface.name: "net1": is for device pci-0000-02-00-0 of claim default/fast and'
    assert done.returncode == 1
    assert line in done.stderr
    assert explained.returncode == 1
    assert line in explained.stdout
    with shim.records() as reader:
        assert reader.records() == ()


def test_interface_name_used_by_two_claims_of_a_pod_is_refused(shim: Shim) -> None:
    one = NAMED.replace("count: 2", "count: 1")
    shim.write("one.yaml", one)
    shim.write("two.yaml", one.replace("name: fast", "name: slow"))

    first = shim.allocate(claim="one.yaml")
    second = shim.allocate(claim="two.yaml")
    again = shim.allocate(claim="one.yaml")

    assert (first.returncode, again.returncode) == (0, 0)
    assert second.returncode == 1
    assert (
        "of claim default/slow and device pci-0000-01-00-0 of claim default/fast" in second.stderr
    )


def test_the_table_shows_a_row_for_each_device(shim: Shim) -> None:
    done = shim.allocate("--container", "main=fast")

    head, *rows = done.stdout.splitlines()
    assert head.split() == ["CLAIM", "REQUEST", "DEVICE", "INTERFACE", "CDI", "DEVICE"]
    assert [row.split()[:4] for row in rows] == [
        ["default/fast", "nics", "pci-0000-02-00-0", "eth2"],
        ["default/fast", "nics", "pci-0000-03-00-0", "eth3"],
    ]


def test_repeated_allocation_for_the_same_pod_gives_the_same_output(shim: Shim) -> None:
    first = shim.allocate("--container", "main=fast")
    again = shim.allocate("--container", "main=fast")
    changed = shim.allocate("--container", "other=fast")

    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert lines(again.stderr) == [
        "claim default/fast: already allocated to this pod, shown as recorded"
    ]
    assert changed.stdout == first.stdout
    assert "its containers are as recorded; to change them: dra-shim release" in changed.stderr


def test_record_of_an_earlier_boot_keeps_its_devices_and_its_nonce(shim: Shim) -> None:
    shim.allocate("--container", "main=fast")
    (path,) = (shim.directory / "state/allocations").glob("*.json")
    with shim.records() as reader:
        (before,) = reader.records()
    path.write_text(path.read_text().replace(before.boot_id, "an-earlier-boot"))

    done = shim.allocate("--container", "main=fast")

    with shim.records() as reader:
        (after,) = reader.records()
    assert done.returncode == 0
    assert (after.devices, after.boot_id) == (before.devices, before.boot_id)
    assert after.nonce == before.nonce


def test_admin_access_is_recorded_and_does_not_reserve_the_device(shim: Shim) -> None:
    shim.allocate("--container", "main=fast")
    constraints = "    constraints:\n    - matchAttribute: resource.kubernetes.io/numaNode\n"
    everything = "deviceClassName: dranet, adminAccess: true, allocationMode: All"
    admin_claim = CLAIM.replace("name: fast", "name: look").replace(constraints, "")
    shim.write("look.yaml", admin_claim.replace("deviceClassName: dranet, count: 2", everything))

    done = shim.allocate("--container", "main=look", pod="p2", claim="look.yaml")

    assert done.returncode == 0, done.stderr
    assert [row.split()[2:] for row in done.stdout.splitlines()[1:]] == [
        [f"pci-0000-0{i}-00-0", f"eth{i}", "-"] for i in (1, 2, 3)
    ]
    with shim.records() as reader:
        (record,) = (record for record in reader.records() if record.claim.name == "look")
    assert all(
        device.admin_access and device.config == NetworkConfig() for device in record.devices
    )
    assert not record.devices[0].share_id


def test_claim_held_by_another_pod_is_refused_with_the_holder(shim: Shim) -> None:
    shim.allocate("--pod-name", "default/train")

    done = shim.allocate(pod="p2")

    assert done.returncode == 1
    (line,) = lines(done.stderr)
    assert line.startswith("claim default/fast: in use by pod default/train (UID p1); dra-shim ")


def test_device_in_use_is_not_allocated_and_the_reason_of_each_device_is_printed(
    shim: Shim,
) -> None:
    shim.allocate("--container", "main=fast", "--pod-name", "default/train")
    shim.write("slow.yaml", CLAIM.replace("fast", "slow"))

    done = shim.allocate(pod="p2", claim="slow.yaml")

    assert (done.returncode, done.stdout) == (1, "")
    title = "claim default/slow: request nics: "
    assert [line.removeprefix(title) for line in lines(done.stderr)] == [
        "needs 2 devices, 1 of 3 can be allocated together; free a device, or relax the selectors "
        "or constraints",
        "device pci-0000-01-00-0: fits; matchAttribute: resource.kubernetes.io/numaNode is 0",
        "device pci-0000-02-00-0: in use by claim default/fast of pod default/train",
        "device pci-0000-03-00-0: in use by claim default/fast of pod default/train",
        "device eth0: not published: carries the default route",
    ]


def test_several_claims_are_allocated_together_or_not_at_all(shim: Shim) -> None:
    shim.write("both.yaml", f"{CLAIM}---{TEMPLATE}---{TEMPLATE.replace('one', 'two')}")

    refused = shim.allocate(claim="both.yaml")

    assert refused.returncode == 1
    with shim.records() as reader:
        assert reader.records() == ()

    shim.write("both.yaml", f"{CLAIM}---{TEMPLATE}")
    done = shim.allocate(
        "--pod-name", "default/train", "--container", "main=fast", "--container", "main=one/nic",
        claim="both.yaml",
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    with shim.records() as reader:
        found = {record.claim.name: record for record in reader.records()}
    assert set(found) == {"fast", "train-one"}
    assert found["train-one"].pod_claim_name == "one"
    assert found["train-one"].devices[0].device.name == "pci-0000-01-00-0"


def test_devices_get_free_addresses_of_the_range(shim: Shim) -> None:
    ranged = CLAIM.replace("{mtu: 4000}", "{addresses: [10.9.1.16-10.9.1.18/24]}")
    shim.write("claim.yaml", ranged)
    shim.write("other.yaml", ranged.replace("name: fast", "name: slow").replace("count: 2", ""))

    first = shim.allocate()
    again = shim.allocate()
    second = shim.allocate(pod="p2", claim="other.yaml")

    assert (first.returncode, again.returncode, second.returncode) == (0, 0, 0)
    with shim.records() as reader:
        given = {
            record.claim.name: [device.config.interface.addresses for device in record.devices]
            for record in reader.records()
        }
    assert given == {
        "fast": [("10.9.1.16/24",), ("10.9.1.17/24",)],
        "slow": [("10.9.1.18/24",)],
    }


def test_claim_is_not_recorded_if_its_address_range_is_exhausted(shim: Shim) -> None:
    shim.write("claim.yaml", CLAIM.replace("{mtu: 4000}", "{addresses: [10.9.1.1-10.9.1.1/24]}"))

    done = shim.allocate()

    assert done.returncode == 1
    assert "10.9.1.1-10.9.1.1/24 has fewer addresses than these devices request" in done.stderr
    with shim.records() as reader:
        assert list(reader.records()) == []


def test_claim_that_no_container_lists_is_allocated_with_a_warning(shim: Shim) -> None:
    done = shim.allocate()

    assert done.returncode == 0
    (line,) = lines(done.stderr)
    assert line.startswith("ClaimNotGated: claim default/fast: no container lists it")
    assert line.endswith("add --container NAME=fast")


@pytest.mark.parametrize(
    ("listed", "warned"),
    [("main=fast/other", True), ("main=fast/nics", True), ("main=fast", False)],
)
def test_a_request_that_no_container_lists_is_allocated_with_a_warning(
    shim: Shim, listed: str, warned: bool  # noqa: FBT001 cases
) -> None:  # fmt: skip
    more = "    - {name: other, exactly: {deviceClassName: dranet}}\n    constraints:"
    shim.write("two.yaml", CLAIM.replace("    constraints:", more).replace("count: 2", "count: 1"))

    done = shim.allocate("--container", listed, claim="two.yaml")

    assert done.returncode == 0
    assert ("ClaimNotGated: claim default/fast: " in done.stderr) is warned


def test_claim_and_class_are_read_from_standard_input(shim: Shim) -> None:
    done = shim.run(
        "allocate", "--claim", "-", "--pod", "p1", "--inventory", "inventory.json",
        "--state-dir", "state", "--run-dir", "run", "--container", "main=fast",
        stdin=f"{CLAIM}---{CLASS}",
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("flag", ["--filter", "--shared"])
def test_misspelt_attribute_in_a_flag_is_reported(shim: Shim, flag: str) -> None:
    done = shim.allocate(flag, 'attributes["dra.net/ifname"].StringValue == "eth9"')

    line = 'dra.net has no attribute "ifname" (did you mean "ifName"?); correct it'
    assert f"dra-shim: {flag}: {line}" in done.stderr.splitlines()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--container", "main=fats"), "container main: no claim 'fats' (did you mean \"fast\"?)"),
        (("--filter", "attributes.x("), "CEL 'attributes.x(': line 1 column"),
        (("--filter", "false"), "device pci-0000-01-00-0: not published: dropped by --filter"),
        (("--claim", "missing.yaml"), "missing.yaml: cannot be read: No such file or directory"),
        (("--class", "binary"), "binary: is not UTF-8 at byte 0; save it as UTF-8"),
        (("--inventory", "missing.json"), "--inventory missing.json: cannot be read: No such file"),
        (("--inventory", "binary"), "--inventory binary: is not UTF-8 at byte 0; save it as UTF-8"),
        (("--inventory", "claim.yaml"), "--inventory claim.yaml: document: not valid JSON at line"),
        (("--azure-size", "Standard_X"), "--azure-size Standard_X: not possible with --inventory"),
    ],
)
def test_invalid_input_is_reported_without_a_traceback(
    shim: Shim, arguments: tuple[str, ...], expected: str
) -> None:
    (shim.directory / "binary").write_bytes(b"\xff\xfe")

    done = shim.allocate(*arguments)

    assert done.returncode == 1
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_broken_record_is_reported_once_and_others_are_processed(shim: Shim) -> None:
    broken = shim.directory / "state/allocations/u9.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")

    done = shim.allocate("--container", "main=fast")
    again = shim.allocate("--container", "main=fast")

    assert (done.returncode, again.returncode) == (0, 0)
    assert lines(done.stderr)[0].startswith("the record of claim u9 was quarantined: ")
    assert "bytes kept in state/allocations/quarantine/u9.json.1" in done.stderr
    assert "u9" not in again.stderr


def test_record_of_a_newer_version_is_reported_on_each_call(shim: Shim) -> None:
    newer = shim.directory / "state/allocations/u9.json"
    newer.parent.mkdir(parents=True)
    newer.write_text('{"version": 99}')

    explained = [shim.allocate("--container", "main=fast").stderr for _ in range(2)]

    assert all("the record of claim u9 cannot be used: $.version: 99" in text for text in explained)


def test_interrupted_command_records_nothing(shim: Shim) -> None:
    child = subprocess.Popen(
        command("allocate", "--claim", "-", "--pod", "p1", "--state-dir", "state"),
        cwd=shim.directory, env=ENVIRONMENT, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stderr is not None
    # The interpreter is up and reads once the process blocks on standard input.
    while not Path(f"/proc/{child.pid}/wchan").exists() or not _reads_standard_input(child.pid):
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=20)

    assert child.returncode == 130
    assert errors == "dra-shim: interrupted\n"
    assert not (shim.directory / "state").exists()


def _reads_standard_input(pid: int) -> bool:
    """Whether the process sleeps in read(0): the first words of its system call line."""
    call = Path(f"/proc/{pid}/syscall").read_text().split()
    return call[0] == "0" and int(call[1], 16) == 0
