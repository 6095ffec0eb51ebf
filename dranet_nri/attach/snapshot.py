"""Snapshot of a device on the host: the state to restore.

Rules:
1. A snapshot contains only the sysctls that a move loses.
"""

from functools import lru_cache
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.errors import RefusedError
from dranet_nri.model import AllocatedDevice, LinkState, Observed, Sysctl
from dranet_nri.plan.adoption import adopted
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import IPV6_TOKEN
from dranet_nri.plan.pod_network import MAX_ROUTES
from dranet_nri.plan.restore import NO_LINK_LOCAL

# linux/if.h. ipv6_add_dev permanently sets accept_dad of an arriving link with this flag to -1.
IFF_NOARP: Final = 0x80
MAX_KNOWN: Final = 64  # snapshots; a device usually has the same one for each pod
_LOSABLE: Final = frozenset({"stable_secret", "addr_gen_mode", "accept_dad"})
# Defaults of an arriving link that have no file: mpls_add_dev (net/mpls/af_mpls.c), ipv6_add_dev.
_WITHOUT_FILES: Final = {("mpls", "input"): "0", IPV6_TOKEN: "::"}


def snapshot_of(session: Session, allocated: AllocatedDevice, observed: Observed) -> LinkState:
    """Return the state to restore.

    Raises:
        RefusedError: the net device is neither on the host nor in the pod.
    """
    host = observed.host
    if host is None:
        if observed.pod is not None:
            return adopted(observed.pod, allocated)
        raise RefusedError(
            f"device {allocated.device.name} ({allocated.device.key.name}) is not on the host:"
            " its driver was unbound, it was unplugged, or a pod without a record has it;"
            " run dranet-nri status"
        )
    defaults = {**session.default_sysctls(), **_WITHOUT_FILES}
    is_noarp = bool((host.link.flags or 0) & IFF_NOARP)
    # A sysctl without a default does not exist on this kernel, even if netlink reports it.
    lost = [
        sysctl
        for sysctl in host.sysctls
        if sysctl.value != defaults.get((sysctl.family, sysctl.key), sysctl.value)
        or (sysctl.key in _LOSABLE and _is_lost(sysctl, is_noarp=is_noarp))
    ]
    snapshot = replace(host, sysctls=tuple(lost))
    return _known(snapshot) if len(snapshot.routes) <= MAX_ROUTES else snapshot


@lru_cache(MAX_KNOWN)
def _known(state: LinkState) -> LinkState:
    """Return the equal snapshot that was taken before, whose JSON is cached."""
    return state


def _is_lost(sysctl: Sysctl, *, is_noarp: bool) -> bool:
    """Whether a move loses the sysctl, although it has its default value."""
    return sysctl.secret or sysctl == NO_LINK_LOCAL or (sysctl.key == "accept_dad" and is_noarp)
