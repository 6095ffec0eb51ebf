"""Make soft-RoCE as movable as an RDMA NIC: edit the driver's source in the directory given.

ib_core, which moves RDMA devices between network namespaces, stays the kernel's own. The driver
only learns to say and do what mlx5 and irdma do. Every edit names a text that the source must have
exactly once; a kernel that reads differently is an error, never a driver that is edited in part.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Edit:
    """Put text in the place of an anchor, or before or after it.

    Attributes:
        file: Name below the driver's directory.
        anchor: What the file holds exactly once.
        text: What replaces it; `{}` stands for the anchor itself.
        why: Why hardware makes it necessary.
    """

    file: str
    anchor: str
    text: str
    why: str


EDITS: Final = (
    Edit(
        "rxe_verbs.c",
        "static void rxe_dealloc_ucontext(struct ib_ucontext *ibuc)\n",
        "static void rxe_leave_user(struct ib_ucontext *ibuc)\n{{\n}}\n\n{}",
        "nothing is to be done here: user space maps no registers of a software device",
    ),
    Edit(
        "rxe_verbs.c",
        "\t.dealloc_ucontext = rxe_dealloc_ucontext,\n",
        "{}\t.disassociate_ucontext = rxe_leave_user,\n",
        "ib_core refuses to move a device that cannot take itself away from its users",
    ),
    Edit(
        "rxe_verbs.c",
        "\terr = rxe_qp_chk_destroy(qp);\n",
        "\tif (ibqp->qp_type == IB_QPT_GSI)\n"
        "\t\tto_rdev(ibqp->device)->port.qp_gsi_index = 0;\n\n{}",
        "a move takes the device from ib_mad and gives it back, which makes queue pair 1 anew;"
        " as long as the old one is remembered, rdma_cm is dead after the first move",
    ),
    Edit(
        "rxe_verbs.c",
        "\tib_set_device_ops(dev, &rxe_dev_ops);\n",
        "\tdev->dev.parent = ndev->dev.parent;\n{}",
        "an RDMA device of hardware sits below its PCI function in sysfs, where inventory looks",
    ),
    Edit(
        "rxe_net.c",
        "\t\tib_unregister_device_queued(&rxe->ib_dev);\n",
        "\t\tif (ndev->reg_state != NETREG_REGISTERED)\n\t{}",
        "a netdev that changes its namespace reports the same event as one that goes for good, but"
        " is still registered; hardware keeps its RDMA device then",
    ),
    Edit(
        "rxe_net.c",
        "\tcase NETDEV_CHANGEMTU:\n",
        "\tcase NETDEV_REGISTER:\n\t\trxe_net_init(ndev);\n\t\tbreak;\n{}",
        "the UDP sockets belong to the namespace: the one the netdev comes to needs its own",
    ),
    Edit(
        "rxe_net.c",
        "static int rxe_udp_encap_recv(struct sock *sk, struct sk_buff *skb)\n",
        "static int rxe_is_below(struct net_device *lower, struct netdev_nested_priv *priv)\n"
        "{{\n\tstruct rxe_dev **found = priv->data;\n\n"
        "\t*found = rxe_get_dev_from_net(lower);\n\treturn *found != NULL;\n}}\n\n"
        "static struct rxe_dev *rxe_below(struct net_device *ndev)\n"
        "{{\n\tstruct rxe_dev *rxe = NULL;\n"
        "\tstruct netdev_nested_priv priv = {{ .data = &rxe }};\n\n"
        "\trcu_read_lock();\n"
        "\tnetdev_walk_all_lower_dev_rcu(ndev, rxe_is_below, &priv);\n"
        "\trcu_read_unlock();\n\treturn rxe;\n}}\n\n{}",
        "the netdev of a GID may be a child of the device's own (IPVLAN, MACVLAN, VLAN)",
    ),
    Edit(
        "rxe_net.c",
        "\tif (!rxe)\n\t\tgoto drop;\n",
        "\tif (!rxe)\n\t\trxe = rxe_below(ndev);\n{}",
        "hardware takes packets for a GID off the wire before the network stack gives them to the"
        " child that has the address",
    ),
    Edit(
        "rxe_net.c",
        "\tif (!rxe)\n\t\treturn NOTIFY_OK;\n",
        "\tif (!rxe && event == NETDEV_UP && !rxe_ns_pernet_sk4(dev_net(ndev))) {{\n"
        "\t\tstruct rxe_dev *below = rxe_below(ndev);\n\n"
        "\t\tif (below) {{\n\t\t\trxe_net_init(ndev);\n"
        "\t\t\tib_device_put(&below->ib_dev);\n\t\t}}\n\t}}\n{}",
        "a child in a namespace without UDP sockets of the driver receives nothing",
    ),
)


def main(directory: Path) -> None:
    """Apply every edit, or end with an error that names the one that doesn't fit."""
    for edit in EDITS:
        path = directory / edit.file
        source = path.read_text()
        count = source.count(edit.anchor)
        if count != 1:
            sys.exit(
                f"error: {edit.file} has {count} times, not once: {edit.anchor.strip()!r}\n"
                f"       this kernel's driver reads differently. The edit is there because\n"
                f"       {edit.why}; write it anew in {__file__}"
            )
        path.write_text(source.replace(edit.anchor, edit.text.format(edit.anchor)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
