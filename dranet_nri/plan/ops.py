"""Operations: the closed union of values that make up a plan.

Rules:
1. An operation is a frozen, printable value without handles; its only observation is the ifindex of
   a link to move.
2. Operations are idempotent.
3. An operation refers to a link by name in a namespace. One that moves or renames it uses the
   observed ifindex, so that a concurrent rename cannot change the target. RDMA devices have an
   index.
"""

from dataclasses import dataclass
from typing import Final

from dranet_nri.model import (
    Address,
    ChildConfig,
    IpoibState,
    Neighbour,
    Ns,
    OffloadSizes,
    Route,
    Rule,
    Switches,
    Sysctl,
)
from dranet_nri.plan.lease_ops import DropAddress, LeaseAddress
from dranet_nri.plan.routes.vrf import AddVrf
from dranet_nri.plan.settings.driver_ops import SetDriver, SetRss
from dranet_nri.plan.settings.programs import AttachTcx, DetachTcx, DetachXdp, DisableTcx
from dranet_nri.plan.settings.rate import LimitRate

IPV6_TOKEN: Final = ("ipv6", "token")  # family and key of a sysctl without a file: `ip token`


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Link settings of one RTM_NEWLINK besides name and namespace; None does not change one.

    `flags` sets all bits that Link.flags has.
    """

    mtu: int | None = None
    mac: str | None = None
    txqlen: int | None = None
    alias: str | None = None
    sizes: OffloadSizes = OffloadSizes()
    flags: int | None = None
    group: int | None = None
    kept: str | None = None
    ipoib: IpoibState | None = None

    def __str__(self) -> str:
        """Return the settings as text, "" if there are none."""
        sizes, ipoib = self.sizes, self.ipoib
        named = {
            "mtu": self.mtu,
            "mac": self.mac,
            "txqlen": self.txqlen,
            "alias": None if self.alias is None else repr(self.alias),
            "gso": sizes.gso,
            "gro": sizes.gro,
            "gso_ipv4": sizes.gso_ipv4,
            "gro_ipv4": sizes.gro_ipv4,
            "flags": None if self.flags is None else f"{self.flags:#x}",
            "group": self.group,
            "kept": self.kept,
            "mode": ipoib and ("connected" if ipoib.connected else "datagram"),
            "umcast": ipoib and int(ipoib.umcast),
        }
        return ", ".join(f"{name} {value}" for name, value in named.items() if value is not None)


@dataclass(frozen=True, slots=True)
class SetDown:
    """Set the link down."""

    ns: Ns
    index: int

    def __str__(self) -> str:
        return f"set link {self.index} down in {self.ns}"


@dataclass(frozen=True, slots=True)
class RenameLink:
    """Rename the link in its namespace. The link must be down."""

    ns: Ns
    index: int
    name: str

    def __str__(self) -> str:
        return f"rename link {self.index} to {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class MoveLink:
    """Move, rename and set the link in one RTM_NEWLINK."""

    source: Ns
    index: int
    target: Ns
    name: str
    settings: LinkSettings = LinkSettings()

    def __str__(self) -> str:
        settings = f" with {self.settings}" if self.settings != LinkSettings() else ""
        way = f"from {self.source} to {self.target}"
        return f"move link {self.index} {way} as {self.name}{settings}"


@dataclass(frozen=True, slots=True)
class SetLink:
    """Change settings of a link without a move."""

    ns: Ns
    name: str
    settings: LinkSettings

    def __str__(self) -> str:
        return f"set {self.settings} on {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class SetUp:
    """Set the link up."""

    ns: Ns
    name: str

    def __str__(self) -> str:
        return f"set {self.name} up in {self.ns}"


@dataclass(frozen=True, slots=True)
class AddAltname:
    """Add an alternative name to the link."""

    ns: Ns
    name: str
    altname: str

    def __str__(self) -> str:
        return f"add altname {self.altname} to {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class DelAltname:
    """Delete an alternative name of the link."""

    ns: Ns
    index: int
    altname: str

    def __str__(self) -> str:
        return f"delete altname {self.altname} of link {self.index} in {self.ns}"


@dataclass(frozen=True, slots=True)
class SetMaster:
    """Set the link's master; "" removes it from its master."""

    ns: Ns
    name: str
    master: str

    def __str__(self) -> str:
        return f"set master of {self.name} to {self.master or 'none'} in {self.ns}"


@dataclass(frozen=True, slots=True)
class AddAddress:
    """Add an address; an existing one is not changed."""

    ns: Ns
    name: str
    address: Address

    def __str__(self) -> str:
        return f"add address {self.address.cidr} to {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class AddRoute:
    """Add a route through the link; an equal existing one counts as success.

    On the host it is appended to other routes of its destination and metric.
    """

    ns: Ns
    name: str
    route: Route

    def __str__(self) -> str:
        hops = [self.route.gateway] if self.route.gateway else []
        hops += (f"{hop.gateway} {hop.device}".strip() for hop in self.route.nexthops)
        via = f" via {' and '.join(hops)}" if hops else ""
        table = f" table {self.route.table}" if self.route.table != 254 else ""  # RT_TABLE_MAIN
        tos = f" tos {self.route.tos}" if self.route.tos else ""
        return f"add route {self.route.destination}{tos}{via} dev {self.name}{table} in {self.ns}"


@dataclass(frozen=True, slots=True)
class AddRule:
    """Add a policy rule; an equal existing one counts as success."""

    ns: Ns
    rule: Rule

    def __str__(self) -> str:
        return f"add rule {_described(self.rule)} in {self.ns}"


@dataclass(frozen=True, slots=True)
class AddNeighbour:
    """Add or replace a permanent neighbour entry."""

    ns: Ns
    name: str
    neighbour: Neighbour

    def __str__(self) -> str:
        entry = f"{self.neighbour.destination} at {self.neighbour.mac or 'no address'}"
        return f"add neighbour {entry} to {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class SetSysctl:
    """Write net/<family>/conf/<name>/<key>, or set the IPv6 token."""

    ns: Ns
    name: str
    sysctl: Sysctl

    def __str__(self) -> str:
        if (self.sysctl.family, self.sysctl.key) == IPV6_TOKEN:
            return f"set IPv6 token of {self.name} to {self.sysctl.value} in {self.ns}"
        path = f"net/{self.sysctl.family}/conf/{self.name}/{self.sysctl.key}"
        value = "what it was" if self.sysctl.secret else self.sysctl.value
        return f"set sysctl {path} to {value} in {self.ns}"


@dataclass(frozen=True, slots=True)
class SetFeatures:
    """Switch offload features (ETHTOOL_MSG_FEATURES_SET).

    Attributes:
        strict: fail if a feature does not have the requested state afterwards.
    """

    ns: Ns
    name: str
    features: Switches
    strict: bool

    def __str__(self) -> str:
        return f"set features {self.features} of {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class SetPrivateFlags:
    """Switch private flags of the driver (ETHTOOL_MSG_PRIVFLAGS_SET)."""

    ns: Ns
    name: str
    flags: Switches

    def __str__(self) -> str:
        return f"set private flags {self.flags} of {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class MoveRdma:
    """Move an RDMA device to the other namespace (RDMA_NLDEV_CMD_SET, exclusive mode only).

    `name` is its current name, which it keeps.
    """

    source: Ns
    index: int
    target: Ns
    name: str

    def __str__(self) -> str:
        return f"move RDMA device {self.name} from {self.source} to {self.target}"


@dataclass(frozen=True, slots=True)
class RenameRdma:
    """Rename an RDMA device in its namespace."""

    ns: Ns
    index: int
    name: str

    def __str__(self) -> str:
        return f"rename RDMA device {self.index} to {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class AddChild:
    """Create a child of a link on the host, in namespace `ns`, with its alias.

    Attributes:
        parent: ifindex of the parent.
        link: its parameters; the partition key of an IPoIB child is resolved.
    """

    ns: Ns
    parent: int
    name: str
    alias: str
    link: ChildConfig

    def __str__(self) -> str:
        kind, parent = self.link.kind, self.parent
        return f"add {kind} child {self.name} of link {parent} {self.link} in {self.ns}"


@dataclass(frozen=True, slots=True)
class DelLink:
    """Delete a child link; a missing one counts as success."""

    ns: Ns
    index: int

    def __str__(self) -> str:
        return f"delete link {self.index} in {self.ns}"


def _described(rule: Rule) -> str:
    ways = f"from {rule.source or 'all'} to {rule.destination or 'all'}"
    ways += "".join(f" {w} {n}" for w, n in (("iif", rule.iif), ("oif", rule.oif)) if n)
    return f"{rule.priority} {ways} lookup {rule.table}"


Op = (
    SetDown
    | RenameLink
    | MoveLink
    | SetLink
    | SetUp
    | AddAltname
    | DelAltname
    | DetachXdp
    | DetachTcx
    | DisableTcx
    | AttachTcx
    | SetMaster
    | AddVrf
    | AddAddress
    | LeaseAddress
    | DropAddress
    | AddRoute
    | AddRule
    | AddNeighbour
    | SetSysctl
    | SetFeatures
    | SetPrivateFlags
    | SetDriver
    | SetRss
    | MoveRdma
    | RenameRdma
    | AddChild
    | LimitRate
    | DelLink
)

Plan = tuple[Op, ...]
