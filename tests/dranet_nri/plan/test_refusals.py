"""Remedies for every operation and errno."""

import errno
from errno import EACCES, EBUSY, EEXIST, EINVAL, EMSGSIZE, EPERM, errorcode
from typing import get_args

import pytest

from dranet_nri.errors import KernelError, OwnedError, RefusedError
from dranet_nri.model import (
    Address,
    DriverSetting,
    IpvlanConfig,
    Neighbour,
    Ns,
    Route,
    Rule,
    Switches,
    Sysctl,
    TcxProgram,
    TcxSide,
    XdpMode,
)
from dranet_nri.plan.lease_ops import DropAddress, LeaseAddress
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    AddChild,
    AddNeighbour,
    AddRoute,
    AddRule,
    DelAltname,
    DelLink,
    LinkSettings,
    MoveLink,
    MoveRdma,
    Op,
    RenameLink,
    RenameRdma,
    SetDown,
    SetFeatures,
    SetLink,
    SetMaster,
    SetPrivateFlags,
    SetSysctl,
    SetUp,
)
from dranet_nri.plan.refusals import (
    ANY,
    UNKNOWN,
    described,
    explained,
    remedy,
    stopped_at,
)
from dranet_nri.plan.routes.vrf import AddVrf
from dranet_nri.plan.settings.driver_ops import SetDriver, SetRss
from dranet_nri.plan.settings.programs import AttachTcx, DetachTcx, DetachXdp, DisableTcx
from dranet_nri.plan.settings.rate import LimitRate

ON = Switches(on=("rx-gro",))
OTHER = {Ns.HOST: Ns.POD, Ns.POD: Ns.HOST}


def ops(ns: Ns) -> tuple[Op, ...]:
    """Return every operation in a namespace, or into it."""
    return (
        SetDown(ns, 7),
        RenameLink(ns, 7, "eth1"),
        MoveLink(OTHER[ns], 7, ns, "eth1"),
        SetLink(ns, "eth1", LinkSettings(mtu=1400)),
        SetUp(ns, "eth1"),
        AddAltname(ns, "eth1", "alt"),
        DelAltname(ns, 7, "alt"),
        DetachXdp(ns, 7, XdpMode.NATIVE),
        DetachTcx(ns, "eth1", ()),
        DisableTcx(ns, "eth1"),
        AttachTcx(ns, "eth1", TcxProgram(TcxSide.EGRESS, 7)),
        SetMaster(ns, "eth1", "br0"),
        AddVrf(ns, "blue", 1541),
        LimitRate(ns, "eth1", 10**9),
        AddAddress(ns, "eth1", Address("10.1.0.5/24")),
        LeaseAddress(ns, "eth1", Address("10.1.0.5/24", valid_s=60, preferred_s=60)),
        DropAddress(ns, "eth1", "10.1.0.5/24"),
        AddRoute(ns, "eth1", Route("10.9.0.0/16")),
        AddRule(ns, Rule(4, 1000)),
        AddNeighbour(ns, "eth1", Neighbour("10.1.0.1", "02:00:00:00:00:01")),
        SetSysctl(ns, "eth1", Sysctl("ipv4", "arp_ignore", "1")),
        SetFeatures(ns, "eth1", ON, strict=ns is Ns.POD),
        SetPrivateFlags(ns, "eth1", ON),
        SetDriver(ns, "eth1", (DriverSetting("rings.rx", 512),), claimed=ns is Ns.POD),
        SetRss(ns, "eth1", (0, 1), claimed=ns is Ns.POD),
        MoveRdma(OTHER[ns], 3, ns, "mlx5_0"),
        RenameRdma(ns, 3, "mlx5_0"),
        AddChild(ns, 7, "dra0", "dra.net/x", IpvlanConfig()),
        DelLink(ns, 7),
    )


# Parameters of a claim, and the operations that apply them.
PARAMETERS: dict[str, tuple[type[Op], ...]] = {
    "interface.addresses": (AddAddress,),
    "routes": (AddRoute,),
    "rules": (AddRule, AddRoute),
    "neighbors": (AddNeighbour,),
    "interface.mtu": (MoveLink, SetLink),
    "hardwareAddr": (MoveLink, SetLink, SetUp, AddNeighbour),
    "interface.name": (MoveLink, RenameLink),
    "interface.vrf": (AddVrf, SetMaster),
    "interface.altnames": (AddAltname,),
    "interface.type": (AddChild,),
    "interface.vlan": (AddChild,),
    "ethtool.features": (SetFeatures,),
    "ethtool.privateFlags": (SetPrivateFlags,),
    "ethtool.rss": (SetRss,),
    "rdma.": (MoveRdma, RenameRdma),
}
# What sockets, descriptors, procfs and the kernel's code for these requests answer.
NAMES = (
    "EPERM EACCES EROFS ENOENT ENODEV ENXIO ESTALE EBADF EINTR EAGAIN EBUSY ETIMEDOUT EIO "
    "ENOMEM ENOBUFS ENOSPC EMFILE ENFILE E2BIG EMSGSIZE EBADMSG EEXIST EADDRINUSE "
    "EADDRNOTAVAIL EAFNOSUPPORT EOPNOTSUPP ENOSYS ENETDOWN ENETUNREACH EHOSTUNREACH "
    "ENOTUNIQ ERANGE EINVAL"
)
MET = {getattr(errno, name) for name in NAMES.split()}


def test_every_operation_is_covered() -> None:
    assert {type(op) for op in ops(Ns.POD)} == set(get_args(Op))


@pytest.mark.parametrize("ns", Ns)
@pytest.mark.parametrize("code", errorcode, ids=errorcode.values())
def test_every_errno_of_every_operation_has_a_remedy(code: int, ns: Ns) -> None:
    for op in (None, *ops(ns)):
        assert remedy(code, op)
        assert (code in MET) <= (remedy(code, op) != UNKNOWN), op


@pytest.mark.parametrize("code", errorcode, ids=errorcode.values())
def test_every_errno_of_a_read_has_a_remedy(code: int) -> None:
    assert remedy(code)
    assert remedy(code).rstrip(".") == remedy(code), "other sentences follow"


@pytest.mark.parametrize("ns", Ns)
@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_is_named_only_by_its_operation_in_a_pod(ns: Ns, name: str) -> None:
    naming = {
        type(op) for op in ops(ns) for code in errorcode if name in normalized(remedy(code, op))
    }

    assert naming <= ({*PARAMETERS[name]} if ns is Ns.POD else set())


def normalized(text: str) -> str:
    """Return the text without the names of kernel tables and commands."""
    return text.replace("(ip -details address, route, rule, link)", "").replace(
        "links or routes than", ""
    )


def test_taken_route_in_the_pod_is_reported_with_the_remedy() -> None:
    error = KernelError("add route 0.0.0.0/0 dev net1 in pod", EEXIST)

    reported = explained(error, AddRoute(Ns.POD, "net1", Route("0.0.0.0/0")))

    assert reported.startswith(
        "add route 0.0.0.0/0 dev net1 in pod: EEXIST; the pod has another route"
    )
    assert "set routes[].metric" in reported


def test_disabled_ipv6_is_reported_with_the_remedy() -> None:
    op = AddAddress(Ns.POD, "net1", Address("2001:db8::5/64"))

    assert "set interface.addresses" in explained(KernelError(str(op), EACCES), op)


def test_oversized_answer_is_reported_with_the_remedy() -> None:
    assert "altnames" in described(KernelError("dump links in pod", EMSGSIZE))


def test_detail_of_an_rdma_request_is_not_repeated() -> None:
    op = MoveRdma(Ns.HOST, 3, Ns.POD, "mlx5_0")

    assert explained(KernelError(str(op), EPERM, "needs CAP_NET_ADMIN"), op).endswith(
        "EPERM (needs CAP_NET_ADMIN)"
    )
    assert explained(KernelError(str(op), EBUSY), op).endswith(f"EBUSY; {ANY[EBUSY]}")


def test_failed_attach_reports_each_part_once() -> None:
    op = SetUp(Ns.POD, "net1")

    stopped = stopped_at(op, KernelError(str(op), EBUSY, "the kernel's words"), ("eth2 is lost",))

    assert str(stopped) == (
        "set net1 up in pod failed: EBUSY (the kernel's words); the device or its driver is busy;"
        " the plugin tries again; not undone: eth2 is lost"
    )


def test_failure_within_a_step_is_reported_with_its_own_name() -> None:
    inner = KernelError("resolve character devices", EINVAL)

    assert str(stopped_at("record the result", inner)) == (
        f"record the result failed: resolve character devices: EINVAL; {ANY[EINVAL]}"
    )


def test_refusal_within_a_step_is_reported_without_the_step() -> None:
    refused = RefusedError("device nic-2: it has no uverbs file; load ib_uverbs")

    assert str(stopped_at("record the result", refused, ("eth2 is lost",))) == (
        "device nic-2: it has no uverbs file; load ib_uverbs; not undone: eth2 is lost"
    )


def test_foreign_error_is_described_with_its_type() -> None:
    assert described(OwnedError("eth1 is held")) == "eth1 is held"
    assert described(RuntimeError("can't start new thread")) == (
        "RuntimeError: can't start new thread"
    )
    assert described(NotImplementedError()) == "NotImplementedError: "
