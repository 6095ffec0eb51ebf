"""A device that is found in a pod without a record: what the host must have had.

Rules:
1. Its name, MTU and address were published, and stand in the allocation.
2. What the claim configures is the claim's. The rest of what is in the pod was inherited, but for
   XDP and TCX programs: one of the pod's that stayed would see what the next pods send.
"""

from dataclasses import replace

from dranet_nri.model import AllocatedDevice, LinkState
from dranet_nri.plan.difference import missing_addresses, missing_routes
from dranet_nri.plan.network import pod_network


def adopted(pod: LinkState, wanted: AllocatedDevice) -> LinkState:
    """Return the state to give back to the host.

    Args:
        pod: its state in the pod.
        wanted: its allocation.
    """
    given = pod_network(wanted.config, LinkState(link=pod.link))
    mtu, mac = (wanted.device.attribute(f"dra.net/{name}") for name in ("mtu", "mac"))
    link = replace(
        pod.link,
        name=wanted.device.key.name,
        mtu=mtu if isinstance(mtu, int) else pod.link.mtu,
        mac=mac if isinstance(mac, str) else pod.link.mac,
        xdp=(),
    )
    return LinkState(
        link=link,
        addresses=missing_addresses(pod.addresses, given.addresses),
        routes=missing_routes(pod.routes, given.routes),
        rules=tuple(each for each in pod.rules if each not in given.rules),
        neighbours=tuple(each for each in pod.neighbours if each not in given.neighbours),
        tcx=(),
    )
