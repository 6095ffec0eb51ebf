"""Safety check at attach: refuses a device that the inventory would not publish now.

Rules:
1. The rules are those of the inventory. A record names what was published once; since then the
   host may use the NIC, and a writer of records is trusted with nothing else.
2. A device that is in its pod is not checked again.
3. While the default route is missing for a moment, the uplinks of the previous scan count.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dranet_nri.errors import RefusedError
from dranet_nri.inventory import (
    HostFacts,
    Uplinks,
    hazards,
    parent_hazards,
    uplinks_of,
    why_unpublished,
)
from dranet_nri.model import Device, LinkState, is_spare
from dranet_nri.plan.kernel import Session


@dataclass(frozen=True, slots=True)
class HostScan:
    """The host at the time of the scan.

    Attributes:
        facts: of the host.
        reasons: ifindex -> why no pod may have that link.
        parent_reasons: ifindex -> why no pod may have a child of that link.
    """

    facts: HostFacts
    reasons: Mapping[int, str]
    parent_reasons: Mapping[int, str]

    def require_publishable(
        self, device: Device, index: int | None, *, stays: bool = False
    ) -> None:
        """Refuse a device that the inventory would not publish now.

        Args:
            device: as the record has it.
            index: of its link on the host, None if it has none there.
            stays: the link stays on the host, and the pod gets a child of it.

        Raises:
            RefusedError: the inventory leaves the device out; the text has the reason.
        """
        reason = why_unpublished(
            device.key, index, self.facts, self.parent_reasons if stays else self.reasons
        )
        if reason:
            raise RefusedError(f"device {device.name}: {reason}")


@dataclass(slots=True)
class PublishGuard:
    """Scans the host for links that no pod may have. Safe to use from several threads.

    Attributes:
        node_addresses: by which the cluster reaches the node, as inet_ntop(3) writes them.
        uplinks: patterns of interfaces that are the uplinks, none to go by default routes.
        include: patterns of links to which no heuristic applies.
        parents: patterns of links that the administrator offers as parents of pods' links.
    """

    node_addresses: tuple[str, ...] = ()
    uplinks: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    _uplinks: Uplinks | None = None

    def look(self, session: Session) -> HostScan:
        """Scan the host.

        Raises:
            KernelError: it cannot be read.
        """
        facts = session.host_facts()
        uplinks = uplinks_of(facts, self.node_addresses, self._uplinks, self.uplinks)
        self._uplinks = uplinks
        return HostScan(
            facts,
            hazards(facts, uplinks, self.include),
            parent_hazards(facts, uplinks, self.include, self.parents),
        )


def waits_for_name(host: LinkState | None, snapshot: LinkState | None) -> bool:
    """Whether the plugin moved the link, and it waits for its own name on the host."""
    return host is not None and snapshot is not None and is_spare(host.link.name)
