"""The conformance cases of NRI events that need attach logic, on a node in memory."""

import json
from dataclasses import replace
from errno import EBUSY

import pytest

from dranet_nri.errors import AttachError, RefusedError
from dranet_nri.model import (
    CharKind,
    Container,
    ContainerClaim,
    NetworkConfig,
    Phase,
    RdmaConfig,
)
from dranet_nri.plan.ops import AddAddress, MoveLink
from tests.dranet_nri.hooks.plugin_node import node
from tests.fakes.node import LATER, Node

pytestmark = pytest.mark.process


__all__ = ["node"]


def test_case_42_pod_without_a_claim_is_unchanged(node: Node) -> None:
    pod = node.pod("plain")

    node.run_pod(pod)

    assert node.plugin.is_unclaimed(pod)
    assert node.is_on_host(1)
    assert not node.attachments.all()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("", id="containerd-names-no-namespace"),
        pytest.param("/proc/1/ns/net", id="crio-binds-the-hosts-own"),
    ],
)
def test_case_42_host_network_pod_with_a_claim_is_refused(node: Node, path: str) -> None:
    pod = replace(node.pod("web"), netns_path=path)
    claim = node.allocate(pod, 1)

    with pytest.raises(RefusedError, match="hostNetwork"):
        node.run_pod(pod)

    assert node.is_on_host(1)
    assert not node.gate_open(claim)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert "hostNetwork" in record.failure.message


@pytest.mark.parametrize(
    "handler",
    [
        *("kata-qemu", "Kata", "runsc", "gvisor", "crun-krun", "kata-fc"),
        *("edera", "kuasar-vmm", "urunc", "runv"),
    ],
)
def test_pod_with_a_vm_runtime_handler_is_refused(node: Node, handler: str) -> None:
    pod = replace(node.pod("web"), handler=handler)
    claim = node.allocate(pod, 1)

    with pytest.raises(RefusedError, match=f"handler '{handler}'.*remove runtimeClassName or the"):
        node.run_pod(pod)

    assert node.is_on_host(1)
    assert not node.gate_open(claim)
    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert record.failure is not None
    assert "runtimeClassName" in record.failure.message


@pytest.mark.parametrize("handler", ["", "runc", "crun", "nvidia", "youki"])
def test_pod_with_another_runtime_handler_gets_its_nic(node: Node, handler: str) -> None:
    pod = replace(node.pod("web"), handler=handler)
    claim = node.allocate(pod, 1)

    node.run_pod(pod)

    assert node.gate_open(claim)


def test_vm_runtime_handlers_are_configurable(node: Node) -> None:
    node.plugin.attacher.vm_handlers = ("sealed",)
    kata, sealed = replace(node.pod("a"), handler="kata"), replace(node.pod("b"), handler="sealed")
    claim = node.allocate(kata, 1, claim="one")
    node.allocate(sealed, 2, claim="two")

    node.run_pod(kata)
    with pytest.raises(RefusedError, match="handler 'sealed'"):
        node.run_pod(sealed)

    assert node.gate_open(claim)


def test_pod_with_a_vm_runtime_handler_may_use_admin_access(node: Node) -> None:
    owner = node.pod("web")
    node.allocate(owner, 1)
    node.run_pod(owner)
    pod = replace(node.pod("monitor"), handler="kata")
    claim = node.allocate(pod, 1, claim="look")
    admin_devices = tuple(replace(device, admin_access=True) for device in claim.devices)
    node.allocations.put(replace(claim, devices=admin_devices))

    node.run_pod(pod)

    record = node.attachments.get(claim.claim.uid)
    assert record is not None
    assert (record.phase, record.devices) == (Phase.ATTACHED, ())


@pytest.mark.parametrize(
    ("memlock", "rdma", "warned"),
    [(65536, True, True), (None, True, False), (2**64 - 1, True, False), (65536, False, False)],
)
def test_low_memlock_limit_of_the_runtime_is_logged(
    node: Node,
    capsys: pytest.CaptureFixture[str],
    memlock: int | None,
    *,
    rdma: bool,
    warned: bool,
) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1, rdma=rdma)
    node.run_pod(pod)
    types = () if memlock is None else ("RLIMIT_MEMLOCK",)
    shown = Container("c", pod.sandbox_id, "app", rlimits=types, memlock=memlock)

    node.run(lambda: node.plugin.create_container(pod, shown, LATER))

    reported = "its soft RLIMIT_MEMLOCK is 65536 bytes, by the runtime's defaults"
    assert (reported in "".join(capsys.readouterr())) == warned


@pytest.mark.parametrize("own_users", [True, False])
@pytest.mark.parametrize("kind", ["umad", "issm", "uverbs"])
def test_root_only_device_files_are_logged_for_a_user_namespace(
    node: Node, capsys: pytest.CaptureFixture[str], kind: str, *, own_users: bool
) -> None:
    node.kernel.rdma.kinds = ("uverbs", "umad", "issm", "rdma_cm")
    pod = node.pod("web")
    claim = node.allocate(pod, 1, rdma=True)
    kinds = NetworkConfig(rdma=RdmaConfig(char_devices=(CharKind(kind),)))
    devices = tuple(replace(device, config=kinds) for device in claim.devices)
    node.allocations.put(replace(claim, devices=devices))
    node.run_pod(pod)
    shown = Container("c", pod.sandbox_id, "app", own_users=own_users)

    node.run(lambda: node.plugin.create_container(pod, shown, LATER))

    reported = f"in which /dev/infiniband/{kind}0 has the node's mode" in "".join(
        capsys.readouterr()
    )
    assert reported == (own_users and kind != "uverbs")


@pytest.mark.parametrize("path", ["", "/proc/1/ns/net"])
def test_case_42_host_network_pod_may_use_admin_access(node: Node, path: str) -> None:
    owner = node.pod("web")
    node.allocate(owner, 1)
    node.run_pod(owner)
    pod = replace(node.pod("monitor"), netns_path=path)
    claim = node.allocate(pod, 1, claim="look")
    admin_devices = tuple(replace(device, admin_access=True) for device in claim.devices)
    node.allocations.put(replace(claim, devices=admin_devices))

    node.run_pod(pod)
    node.create(pod)
    node.stop_pod(pod)

    assert node.attachments.get(claim.claim.uid) is None, "nothing was attached"
    assert node.in_pod(1, owner)


def test_case_42_missing_namespace_file_is_refused(node: Node) -> None:
    pod = replace(node.pod("web"), netns_path="/run/netns/never-made")
    node.allocate(pod, 1)

    with pytest.raises(
        RefusedError, match=r"/run/netns/never-made does not exist; .*netns-state-dir"
    ):
        node.run_pod(pod)


def test_case_43_repeated_or_reordered_hooks_change_nothing(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    first = node.attachments.get(claim.claim.uid)

    node.run_pod(pod)
    assert node.attachments.get(claim.claim.uid) == first

    node.stop_pod(replace(pod, netns_path=""))  # containerd 1.7 and 2.0 name no namespace
    node.stop_pod(pod)
    node.run(lambda: node.plugin.remove_pod_sandbox(pod))
    assert node.is_on_host(1)
    node.stop_pod(node.pod("never-seen"))


def test_case_43_remove_without_stop_restores_the_nic(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)

    node.run(lambda: node.plugin.remove_pod_sandbox(pod))

    assert node.is_on_host(1)


def test_case_43_stop_after_the_namespace_died_restores_the_returned_nic(
    node: Node,
) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    node.kernel.remove_netns(node.netns(pod))  # CRI-O unmounts it before the hook

    node.stop_pod(pod)
    node.reconcile()

    assert node.is_on_host(1)
    assert node.phase(claim) is Phase.RESTORED


def test_case_45_undo_events_after_a_failed_hook_are_harmless(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.kernel.fail_on(AddAddress, times=1)

    with pytest.raises(AttachError, match=r"add address 10.0.1.5/24"):
        node.run_pod(pod)
    node.stop_pod(pod)
    node.run(lambda: node.plugin.remove_pod_sandbox(pod))

    assert node.is_on_host(1)
    assert not node.gate_open(claim)


def test_case_46_remove_of_an_earlier_sandbox_keeps_the_new_one_attached(node: Node) -> None:
    old = node.pod("web", "one")
    node.allocate(old, 1)
    node.run_pod(old)
    node.stop_pod(old)
    new = node.pod("web", "two")
    node.run_pod(new)

    node.run(lambda: node.plugin.remove_pod_sandbox(old))

    assert node.kernel.state("eth1", node.netns(new)) is not None


def test_case_48_container_of_an_unattached_pod_is_attached_first(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1, containers=(ContainerClaim("app"),))

    edits = node.run(
        lambda: node.plugin.create_container(pod, Container("c", pod.sandbox_id, "app"), LATER)
    )

    assert node.phase(claim) is Phase.ATTACHED
    assert ("DRA_NET_NICS_NIC1_IFNAMES", "eth1") in edits.env


def test_case_48_container_with_the_claim_is_refused_while_the_attach_fails(
    node: Node,
) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1, containers=(ContainerClaim("app"),))
    node.kernel.fail_on(MoveLink, EBUSY)

    with pytest.raises(AttachError, match="EBUSY"):
        node.run(
            lambda: node.plugin.create_container(pod, Container("c", pod.sandbox_id, "app"), LATER)
        )
    sidecar = Container("s", pod.sandbox_id, "sidecar")
    edits = node.run(lambda: node.plugin.create_container(pod, sidecar, LATER))

    assert edits.env == ()
    assert node.is_on_host(1)


def test_case_49_devices_already_present_in_the_request_are_not_sent_again(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1, 2, rdma=True)
    node.run_pod(pod)
    shown = Container("c", pod.sandbox_id, "app", device_paths=("/dev/infiniband/uverbs0",))

    edits = node.run(lambda: node.plugin.create_container(pod, shown, LATER))

    assert [device.path for device in edits.char_devices] == [
        "/dev/infiniband/rdma_cm",
        "/dev/infiniband/uverbs1",
    ]
    assert [rlimit.type for rlimit in edits.rlimits] == ["RLIMIT_MEMLOCK"]


def test_case_51_sandbox_list_after_a_runtime_restart_is_applied(node: Node) -> None:
    gone, kept, new = node.pod("gone"), node.pod("kept"), node.pod("new")
    node.allocate(gone, 1, claim="one")
    node.allocate(kept, 2, claim="two")
    node.run_pod(gone)
    node.run_pod(kept)
    before = node.attachments.get("claim-two")
    node.kernel.remove_netns(node.netns(gone))
    node.allocate(new, 1, claim="three")

    async def synchronize() -> None:
        listed = (replace(gone, pid=0), kept, new)  # the stopped sandbox is still listed
        await node.plugin.synchronize(listed)
        for _ in range(2):
            await node.plugin.reconcile()

    node.run(synchronize)

    assert node.attachments.get("claim-two") == before
    assert node.kernel.state("eth1", node.netns(new)) is not None
    record = node.attachments.get("claim-one")
    assert record is not None
    assert record.phase is Phase.RESTORED


def test_case_51_sandbox_missing_in_the_list_is_detached(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)

    async def synchronize() -> None:
        await node.plugin.synchronize(())
        await node.plugin.reconcile()

    node.run(synchronize)

    assert node.is_on_host(1)


def test_case_52_plugin_restart_keeps_pods_attached(node: Node) -> None:
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)

    node.restart()
    node.reconcile()

    assert node.kernel.state("eth1", node.netns(pod)) is not None
    assert node.gate_open(claim)
    node.stop_pod(pod)
    assert node.is_on_host(1)


def test_case_52_broken_allocation_refuses_only_its_pod(node: Node) -> None:
    pod, other = node.pod("web"), node.pod("other")
    node.allocate(pod, 1, claim="one")
    node.allocate(other, 2, claim="two")
    path = node.root / "allocations" / "claim-one.json"
    text = json.loads(path.read_bytes())
    text["devices"][0]["device"]["key"]["pci"] = "nonsense"
    path.write_text(json.dumps(text))

    with pytest.raises(RefusedError, match="cannot be used"):
        node.run_pod(pod)
    node.run_pod(other)

    assert node.kernel.state("eth2", node.netns(other)) is not None
    assert path.exists()
