"""Causes of failed checks, each with its meaning and its remedy."""

from typing import Final

# cause: (meaning, remedy)
CAUSES: Final[dict[str, tuple[str, str]]] = {
    "no-pod": (
        "the pod of the verification did not become ready",
        "free the NICs of the node, or set --nodes, --nics, --image or --timeout",
    ),
    "missing": (
        "the claim has this NIC, the pod does not",
        "read the claim's status and the Events of the pod; run `dranet-nri status` on the node",
    ),
    "down": (
        "the port has no carrier, or is not active",
        "check cable, transceiver and switch port; for InfiniBand, check the subnet manager",
    ),
    "mtu": (
        "the MTU of the interface differs from claim or slice",
        "set `interface.mtu` of the claim, or the MTU on the node, to that of the fabric",
    ),
    "no-gid": (
        "the RDMA device has no usable GID, so verbs cannot address it",
        "give the NIC an IP address (RoCE), or check the subnet manager (InfiniBand)",
    ),
    "pkey": (
        "the two ports share no partition in which one is a full member",
        "add both ports to one partition at the subnet manager, or claim the same `ipoib.pkey`",
    ),
    "memlock": (
        "the limit of locked memory is too low for RDMA buffers",
        "run dranet-nri with `--memlock unlimited`, its default, or add the capability IPC_LOCK",
    ),
    "shared": (
        "the pod sees RDMA devices that it has no claim for",
        "run `rdma system set netns exclusive` on the node before any pod runs (docs: rdma.md)",
    ),
    "numa": (
        "GPU and NIC are on different NUMA nodes: traffic crosses the sockets",
        "add `matchAttribute: resource.kubernetes.io/pcieRoot` to the claim; where they share no "
        "root, select the NICs by `dra.net/numaNode`",
    ),
    "route": (
        "traffic from the address of this NIC leaves by another interface",
        "give the claim a rule and a table for the address (`rules`, `routes` in its parameters)",
    ),
    "crossed": (
        "another NIC of the pod reaches this one: the rails are crossed",
        "swap the cables, or correct the rail of the NICs at the switch",
    ),
    "no-neighbour": (
        "no host answers for the address: the NICs are not in one network",
        "compare VLAN, switch port and subnet of both NICs; on Azure, the fabric of the nodes",
    ),
    "firewall": (
        "the peer answers ARP and no packets: they are dropped on the way or at the peer",
        "check firewall rules of pod, node and network, and the routes of the peer's pod",
    ),
    "path-mtu": (
        "small packets pass, full ones do not: the path has a smaller MTU than the NICs",
        "raise the MTU of switch ports and VLANs, or lower `interface.mtu` in the claim",
    ),
    "loss": (
        "packets are lost on the path",
        "read the error counters of NIC and switch (`ethtool -S`); check cables and flow control",
    ),
    "no-tcp": (
        "ping works, but no TCP connection does",
        "check firewall rules and network policies for TCP between the addresses",
    ),
    "slow": (
        "the link is slower than its speed allows",
        "check rate limits (`tc qdisc`), PCIe width (`lspci -vv`), link speed, and NUMA placement",
    ),
    "no-rdma": (
        "verbs do not connect",
        "check port state, fabric and firewalls: UDP 4791 (RoCE), TCP from 18515 between pods",
    ),
    "no-collective": (
        "the ranks of the pods did not finish an all-gather and an all-reduce",
        "read the message; run with NCCL_DEBUG=INFO in the Pod of --pod, which shows the devices "
        "that NCCL uses",
    ),
    "slow-collective": (
        "the ranks exchange less than the NICs of the pods allow",
        "claim each GPU with a NIC of its PCIe root (`matchAttribute`), and check that NCCL uses "
        "the RDMA devices (NCCL_DEBUG=INFO)",
    ),
    "late": (
        "the latency of RDMA reads is too high",
        "check for a busy fabric, for power saving of the CPUs, and for NUMA placement",
    ),
}
