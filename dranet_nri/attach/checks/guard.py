"""Publish guard: at attach, refuses a device that the inventory would not publish now.

Rules:
1. The rules of the inventory apply again: the host may have started to use the NIC after its
   publication, and the allocation record is untrusted input.
2. A device that is in its pod is not checked again.
3. While the default route is missing briefly, the uplinks of the previous scan apply.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dranet_nri.errors import RefusedError
from dranet_nri.inventory import (
    HazardRules,
    HostFacts,
    NetDevice,
    Uplinks,
    parent_hazards,
    uplinks_of,
    why_unpublished,
)
from dranet_nri.model import Device, LinkState, is_temporary_name
from dranet_nri.plan.kernel import Session


@dataclass(frozen=True)
class HostScan:
    """Result of a host scan. Reasons are computed on request: a pod needs those of its NICs only.

    Attributes:
        facts: facts of the host.
        uplinks: uplinks of the same facts.
        include, parents: see PublishGuard.
    """

    facts: HostFacts
    uplinks: Uplinks
    include: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()

    @cached_property
    def _rules(self) -> HazardRules:
        return HazardRules(self.facts, self.uplinks, self.include)

    @cached_property
    def _parent_reasons(self) -> Mapping[int, str]:
        """Return ifindex -> reason why no pod may have a child of the link."""
        return parent_hazards(self.facts, self.uplinks, self.include, self.parents)

    def require_publishable(
        self, device: Device, index: int | None, *, as_parent: bool = False
    ) -> None:
        """Refuse a device that the inventory would not publish now.

        Args:
            device: the recorded device.
            index: ifindex of its link on the host, None without one.
            as_parent: the link stays on the host, and the pod gets a child of it.

        Raises:
            RefusedError: the inventory excludes the device; the text has the reason.
        """
        reason_of = self._parent_reason if as_parent else self._rules.reason
        reason = why_unpublished(device.key, index, self.facts, reason_of)
        if reason:
            raise RefusedError(f"device {device.name}: {reason}")

    def _parent_reason(self, device: NetDevice) -> str:
        return self._parent_reasons.get(device.link.index, "")


@dataclass(slots=True)
class PublishGuard:
    """Scans the host for links that no pod may have. Safe to use from several threads.

    Attributes:
        node_addresses: addresses of the node in the cluster, in the form of inet_ntop(3).
        uplinks: patterns of uplink interfaces, () to derive them from default routes.
        include: patterns of links to which no heuristic applies.
        parents: patterns of links that the administrator offers as parents.
    """

    node_addresses: tuple[str, ...] = ()
    uplinks: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    _uplinks: Uplinks | None = None

    def scan(self, session: Session) -> HostScan:
        """Scan the host.

        Raises:
            KernelError: the host could not be read.
        """
        facts = session.host_facts()
        uplinks = uplinks_of(facts, self.node_addresses, self._uplinks, self.uplinks)
        self._uplinks = uplinks
        return HostScan(facts, uplinks, self.include, self.parents)


def has_temporary_name(host: LinkState | None, snapshot: LinkState | None) -> bool:
    """Whether a restored link has a temporary name, because its own is taken on the host."""
    return host is not None and snapshot is not None and is_temporary_name(host.link.name)
