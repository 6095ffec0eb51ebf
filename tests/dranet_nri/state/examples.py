"""Records with every field set, which the tests modify."""

from dranet_nri.model import (
    Address,
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    CharDevice,
    CharKind,
    Consumed,
    ContainerClaim,
    Device,
    DeviceKey,
    EthtoolConfig,
    EthtoolState,
    Failure,
    InterfaceConfig,
    IpoibConfig,
    IpoibMode,
    IpoibState,
    Lease,
    Link,
    LinkState,
    Neighbour,
    NeighbourConfig,
    NetnsId,
    NetworkConfig,
    NextHop,
    ObjectRef,
    OffloadSizes,
    Phase,
    RdmaConfig,
    RdmaLink,
    Route,
    RouteConfig,
    Rule,
    RuleConfig,
    Switches,
    Sysctl,
    TcxProgram,
    TcxSide,
    Version,
    XdpMode,
    XdpProgram,
)

CLAIM_UID = "6f1c0a52-3a57-4a0e-9a6b-0f7d3c1e2b4a"
POD_UID = "0b9d5b1e-8a0c-4f6e-b1d2-77aa00c3d4e5"

DEVICE = Device(
    name="pci-0000-8a-00-2",
    key=DeviceKey("pci", "0000:8a:00.2", "eth2", "0000:8a:00.2", 1),
    attributes=(
        ("dra.net/ifName", "eth2"),
        ("dra.net/mtu", 9000),
        ("dra.net/rdma", True),
        ("dra.net/version", Version("1.2.3")),
    ),
    rdma_devices=("mlx5_2",),
)

CONFIG = NetworkConfig(
    interface=InterfaceConfig(
        name="net1",
        addresses=("10.1.0.5/24", "2001:db8::5/64"),
        mtu=9000,
        hardware_addr="02:00:00:00:00:05",
        gso_max_size=65536,
        gro_max_size=65536,
        gso_ipv4_max_size=65536,
        gro_ipv4_max_size=65536,
        arp_ignore=1,
        arp_announce=2,
        forwarding=False,
        ipoib=IpoibConfig(0x8001, IpoibMode.CONNECTED),
    ),
    routes=(RouteConfig("10.2.0.0/16", "10.1.0.1", "10.1.0.5", 0, 100, 300),),
    rules=(RuleConfig(1000, "10.1.0.5/32", "10.2.0.0/16", 100),),
    neighbors=(NeighbourConfig("10.1.0.1", "02:00:00:00:00:01"),),
    rdma=RdmaConfig((CharKind.UVERBS, CharKind.UMAD), "mlx5_pod"),
    ethtool=EthtoolConfig(Switches(("gro",), ("tso",)), Switches(on=("rx_cqe_moder",))),
)

ALLOCATION = Allocation(
    claim=ObjectRef("training", "two-nics", CLAIM_UID),
    pod=ObjectRef("training", "worker-0", POD_UID),
    devices=(
        AllocatedDevice(
            "nic",
            "node-a",
            DEVICE,
            CONFIG,
            share_id="5e0f",
            subrequest="fast",
            consumed=(Consumed("dra.net/bandwidth", 20 * 10**9),),
        ),
        AllocatedDevice("watch", "node-a", DEVICE, admin_access=True),
    ),
    nonce="k3v9q2",
    boot_id="f0a1c2d3-0000-4000-8000-000000000001",
    pod_claim_name="nics",
    containers=(ContainerClaim("train", "nic"), ContainerClaim("sidecar")),
)

SNAPSHOT = LinkState(
    link=Link(
        index=7,
        name="eth2",
        kind="",
        arphrd=1,
        mac="02:00:00:00:00:02",
        mtu=1500,
        min_mtu=68,
        max_mtu=9216,
        up=True,
        carrier=True,
        operstate="up",
        master=9,
        lower=0,
        loopback=False,
        alias="rack 4, port 2",
        altnames=("enp138s0f0v0",),
        txqlen=1000,
        sizes=OffloadSizes(65536, 65536, 65536, None),
        bus="pci",
        parent="0000:8a:00.2",
        perm_mac="02:00:00:00:00:03",
        dev_port=1,
        flags=0x1100,
        group=3,
        xdp=(XdpProgram(XdpMode.NATIVE, 42),),
        ipoib=IpoibState(connected=False, umcast=True),
    ),
    master_name="vrf-blue",
    addresses=(Address("10.0.0.5/24", label="eth2", broadcast="10.0.0.255", metric=10),),
    routes=(
        Route("0.0.0.0/0", "10.0.0.1", protocol=4, mtu=1400),
        Route("10.8.0.0/16", tos=16, metrics="08000b0014000000", realms=5, encap="06001500"),
        Route("10.9.0.0/16", nexthops=(NextHop("10.0.0.1", 2), NextHop("10.0.0.2", device="eth3"))),
    ),
    rules=(Rule(4, 32000, "10.0.0.5/32", table=100, fwmark=1, fwmask=255, invert=True),),
    neighbours=(Neighbour("10.0.0.1", "02:00:00:00:00:01"), Neighbour("10.0.0.9", "", proxy=True)),
    sysctls=(Sysctl("ipv4", "arp_ignore", "0"),),
    unrestorable=("10.7.0.0/16 in table 254, which has nexthop object 7",),
    ethtool=EthtoolState(
        Switches(("tx-tcp-segmentation", "tx-tcp6-segmentation"), ("rx-gro",)),
        ("tx-tcp-segmentation",),
        Switches(off=("rx_cqe_moder",)),
    ),
    tcx=(TcxProgram(TcxSide.INGRESS, 43), TcxProgram(TcxSide.EGRESS, 44)),
)

ATTACHMENT = Attachment(
    claim=ALLOCATION.claim,
    pod=ALLOCATION.pod,
    sandbox_id="3f9a6d0c",
    netns=NetnsId("/run/netns/cni-1", 4, 4026532801),
    phase=Phase.FAILED,
    devices=(
        AttachedDevice(
            "nic",
            DEVICE,
            SNAPSHOT,
            snapshot_s=1234,
            pod_name="net1",
            pod_altnames=("rail-0",),
            pod_index=7,
            mac="02:00:00:00:00:05",
            mtu=9000,
            addresses=("10.1.0.5/24",),
            rdma=(RdmaLink(3, "mlx5_2", "0c42:a103:0065:5a1e"),),
            shared_rdma=("mlx5_7",),
            rdma_name="mlx5_pod",
            warnings=("rdma: umad missing; load ib_umad",),
            child="dra.net/6f1c/nic",
            lease=Lease("10.1.0.5/24", "10.1.0.1", "02:00:00:00:00:01", 1200, 3600, 1800, 3150),
            share_id="8d7e",
            char_devices=(CharDevice("/dev/infiniband/uverbs2", 231, 194, 0o666, 0, 0),),
            restored=True,
        ),
        AttachedDevice("watch", DEVICE),
    ),
    attempt=3,
    failure=Failure("NetworkDeviceAttachFailed", "eth2: MTU 9000 is above 1500", 1_790_000_000, 2),
)


def allocation_of(claim_uid: str, pod_uid: str = POD_UID, nonce: str = "n0") -> Allocation:
    """Return a small allocation of this claim."""
    return Allocation(
        claim=ObjectRef("training", "claim", claim_uid),
        pod=ObjectRef("training", "worker-0", pod_uid),
        devices=(AllocatedDevice("nic", "node-a", DEVICE),),
        nonce=nonce,
        boot_id="",
    )


def attachment_of(claim_uid: str, pod_uid: str = POD_UID) -> Attachment:
    """Return a small attachment of this claim."""
    return Attachment(
        claim=ObjectRef("training", "claim", claim_uid),
        pod=ObjectRef("training", "worker-0", pod_uid),
        sandbox_id="3f9a",
        netns=NetnsId("/run/netns/a", 4, 4026532801),
        phase=Phase.ATTACHED,
        devices=(AttachedDevice("nic", DEVICE),),
    )
