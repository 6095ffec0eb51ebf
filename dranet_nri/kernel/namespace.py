"""An open network namespace of a session, and the requests of a plan in it."""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from errno import EPERM
from typing import Any, Final, NamedTuple

from dranet_nri.errors import KernelError
from dranet_nri.kernel.ip import vrf
from dranet_nri.kernel.ip.addresses import dump_addresses
from dranet_nri.kernel.ip.neighbours import dump_neighbours
from dranet_nri.kernel.ip.routes import dump_routes, taken_route_keys, without_implied
from dranet_nri.kernel.ip.rules import rules_from, rules_of
from dranet_nri.kernel.netns import run_inside, sockets_in
from dranet_nri.kernel.settings import sysctl
from dranet_nri.kernel.settings.ethtool import Ethtool
from dranet_nri.kernel.settings.neighbour_tables import (
    NEIGHBOUR_KEYS,
    LinkParameters,
    dump_tables,
    known_sysctls,
    parameters_of,
    remember,
)
from dranet_nri.kernel.settings.token import set_token, token_of
from dranet_nri.linux import bpf
from dranet_nri.linux.netlink.generic import NETLINK_GENERIC
from dranet_nri.linux.netlink.kept import KeptFact
from dranet_nri.linux.netlink.links import IFLA_AF_SPEC, DumpedLink, dump_links, index_of, link_at
from dranet_nri.linux.netlink.main_routes import MainRoutes, main_routes_here
from dranet_nri.linux.netlink.other_netns import UpperLinks, upper_links_here
from dranet_nri.linux.netlink.policy_routing import dump_rules
from dranet_nri.linux.netlink.protocols import LoadedProtocols
from dranet_nri.linux.netlink.routes import RouteUses
from dranet_nri.linux.netlink.rtnetlink import NETLINK_ROUTE, RtnetlinkSocket, rtnetlink_socket
from dranet_nri.linux.netlink.socket import NetlinkSocket
from dranet_nri.linux.netlink.underlays import open_ipsec
from dranet_nri.model import Link, LinkState, Ns, Rule, Sysctl, TcxProgram
from dranet_nri.plan.ops import IPV6_TOKEN
from dranet_nri.plan.routes.comparison import RouteKey
from dranet_nri.plan.routes.vrf import AddVrf
from dranet_nri.plan.settings.programs import AttachTcx

# Bytes of a dump of a pod's links or routes: a pod may create any number of them, and each takes
# three times its size in this process. Enough for some 12,000 plain links.
MAX_POD_DUMP: Final = 16 << 20


class KeptFacts(NamedTuple):
    """Facts of the host's namespace that outlive a session, because few changes concern them."""

    protocols: LoadedProtocols
    uppers: UpperLinks
    routes: MainRoutes

    def filenos(self) -> tuple[int, ...]:
        """Return the descriptors that are readable while events are queued."""
        return tuple(fact.fileno() for fact in self._with_events())

    def take_events(self) -> None:
        """Apply some queued events between sessions, so that the next session has fewer of them.

        An error is not reported: the next session has it, too.
        """
        for fact in self._with_events():
            with suppress(KernelError):
                fact.take_events()

    def _with_events(self) -> Iterator[KeptFact[Any, Any]]:
        yield self.routes.kept
        if self.uppers.kept:
            yield self.uppers.kept


def kept_facts_here() -> KeptFacts:
    """Return the facts of the calling thread's own namespace.

    Raises:
        KernelError: the kernel has no netlink.
    """
    return KeptFacts(LoadedProtocols(), upper_links_here(), main_routes_here())


class Namespace:
    """A namespace with a socket for rtnetlink and one for ethtool.

    Links, rules and neighbour tables serve all devices of a pod. They are read once and cached
    until a change, because a node has hundreds of links.

    Attributes:
        ns: its role in the plan.
        fd: descriptor of the namespace, owned.
        netlink, ethtool: its sockets, owned.
    """

    def __init__(
        self,
        ns: Ns,
        nsfd: int,
        proc_root: str,
        kept: KeptFacts | None = None,
    ) -> None:
        """Take over nsfd, also on failure, and open the sockets in it.

        Args:
            ns: its role in the plan.
            nsfd: descriptor of the namespace.
            proc_root: see NetlinkKernel.
            kept: facts of the host's namespace; None: none of them is reported.

        Raises:
            KernelError: the namespace cannot be entered.
        """
        self.ns = ns
        self.fd = nsfd
        try:
            route, generic = sockets_in(nsfd, NETLINK_ROUTE, NETLINK_GENERIC)
            self.ethtool = Ethtool(generic)
            self.netlink: RtnetlinkSocket = rtnetlink_socket(route)
        except BaseException:
            os.close(nsfd)
            raise
        self._proc_root = proc_root
        self._kept = kept
        self._links: tuple[DumpedLink, ...] | None = None
        self._rules: tuple[Rule, ...] | None = None
        self._rule_messages: list[bytes] | None = None
        self._tables: list[bytes] | None = None  # of neighbours
        self._indexes: dict[str, int] = {}
        self._ipsec: NetlinkSocket | None = None

    def invalidate(self) -> None:
        """Drop cached links, rules and neighbour tables before a change."""
        self._links = None
        self._rules = self._rule_messages = None
        self._tables = None

    def invalidate_names(self) -> None:
        """Drop cached names before a link appears, disappears or is renamed."""
        self._indexes.clear()

    def links(self) -> tuple[DumpedLink, ...]:
        """Return every link of the namespace.

        Raises:
            KernelError: E2BIG: a pod has more than the limit.
        """
        if self._links is None:
            max_bytes = None if self.ns is Ns.HOST else MAX_POD_DUMP
            self._links = dump_links(self.netlink, self.ns, max_bytes)
        return self._links

    def link_at(self, index: int) -> tuple[DumpedLink, ...]:
        """Return the link with that ifindex, () if there is none."""
        try:
            return (link_at(self.netlink, f"find link {index} in {self.ns}", index),)
        except KernelError as error:
            if error.already_gone:
                return ()
            raise

    def rules(self) -> tuple[Rule, ...]:
        """Return every rule of the namespace."""
        if self._rules is None:
            self._rules = rules_from(self.rule_messages())
        return self._rules

    def rule_messages(self) -> list[bytes]:
        """Return the messages of every rule of the namespace."""
        if self._rule_messages is None:
            self._rule_messages = dump_rules(self.netlink, f"in {self.ns}")
        return self._rule_messages

    def ipsec(self) -> NetlinkSocket | None:
        """Return the socket for IPsec policies, None without IPsec, see open_ipsec.

        It stays open, because a socket that is closed before the move of a device delays the move.
        """
        kept = self._kept
        if self._ipsec is None and kept is not None:
            self._ipsec = run_inside(self.fd, lambda: open_ipsec(kept.protocols))
        return self._ipsec

    def upper_kinds(self) -> Mapping[int, tuple[str, ...]]:
        """Return ifindex -> kinds of its upper links in other namespaces."""
        return self._kept.uppers.kinds(self.netlink, self.fd) if self._kept else {}

    def main_routes(self) -> RouteUses:
        """Return what the routes of table main show, see linux/netlink/routes.py."""
        return self._kept.routes.uses(self.netlink) if self._kept else ((), (), ())

    def close(self) -> None:
        """Close sockets and descriptor. Idempotent."""
        self.netlink.close()
        self.ethtool.close()
        if self._ipsec is not None:
            self._ipsec.close()
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def index(self, what: str, name: str) -> int:
        """Return the ifindex of the link of that name; KernelError ENODEV if there is none.

        Consecutive operations use one link, so the ifindex is cached. It stays valid if another
        process renames the link.
        """
        if name not in self._indexes:
            self._indexes[name] = index_of(self.netlink, what, name)
        return self._indexes[name]

    def state(self, link: Link, compared: Collection[Sysctl] | None = None) -> LinkState:
        """Return the full state of one link.

        Sysctls are those that a move resets on the host, and those that a claim can set in a pod.

        Args:
            link: the link.
            compared: of the sysctls that are in no array, the needed ones; None for all.
        """
        links = self.links()
        names = {other.index: other.name for other in links}
        addresses = dump_addresses(self.netlink, self.ns, link.index, link.name)
        dumped, unrestorable = dump_routes(self.netlink, self.ns, link.index, names)
        routes = without_implied(dumped, addresses)
        specs = (other.attrs.get(IFLA_AF_SPEC, b"") for other in links if other.index == link.index)
        spec = next(specs, b"")
        # The token is last: the kernel accepts it if accept_ra is on and forwarding off.
        sysctls = (*sysctl.reset_by_move(spec), *token_of(spec))
        if self.ns is Ns.HOST:
            sysctls = self._with_others(link, sysctls, compared)
        return LinkState(
            link=link,
            master_name=names.get(link.master, "") if link.master else "",
            addresses=addresses,
            routes=routes,
            rules=rules_of(self.rules(), link.name, {route.table for route in routes}),
            neighbours=dump_neighbours(self.netlink, self.ns, link.index, link.name),
            sysctls=sysctl.set_by_claims(sysctls) if self.ns is Ns.POD else sysctls,
            unrestorable=unrestorable,
        )

    def taken_route_keys(self, except_links: Collection[int]) -> dict[RouteKey, str]:
        """Return the keys of a pod's routes, except routes of these links."""
        names = {other.index: other.name for other in self.links()}
        return taken_route_keys(self.netlink, except_links, names, MAX_POD_DUMP)

    def _with_others(
        self, link: Link, sysctls: tuple[Sysctl, ...], compared: Collection[Sysctl] | None
    ) -> tuple[Sysctl, ...]:
        """Return the sysctls, and those that are in no array: of files, or known ones."""
        keys = sysctl.in_no_array(compared, secret=sysctl.has_stable_privacy(sysctls))
        families = {entry.family for entry in sysctls}
        parameters, known = None, None
        if any(key in NEIGHBOUR_KEYS for _, key in keys):
            parameters = self._neighbour_parameters(link.index, families)
            known = known_sysctls(parameters) if parameters else None
        in_files = tuple(key for key in keys if known is None or key[1] not in NEIGHBOUR_KEYS)
        proc_root, name = self._proc_root, link.name
        shown = run_inside(self.fd, lambda: sysctl.read_from_files(proc_root, name, in_files))
        if parameters and known is None and compared is None:
            self._tables = None
            if self._neighbour_parameters(link.index, families) == parameters:
                remember(parameters, (entry for entry in shown if entry.key in NEIGHBOUR_KEYS))
        first = tuple(entry for entry in shown if entry.secret)
        listed = (entry for entry in known or () if (entry.family, entry.key) in keys)
        return (*first, *sysctls, *shown[len(first) :], *listed)

    def _neighbour_parameters(self, index: int, families: set[str]) -> LinkParameters | None:
        """Return the link's parameters, None if they are not those of its address families."""
        if self._tables is None:
            self._tables = dump_tables(self.netlink, self.ns)
        parameters = parameters_of(self._tables, index)
        return parameters if {family for family, _ in parameters} == families else None

    def tcx(self, index: int) -> tuple[TcxProgram, ...] | None:
        """Return a link's TCX programs; None without TCX in the kernel, or the privilege."""
        try:
            return run_inside(self.fd, lambda: bpf.programs_on(index))
        except KernelError as error:
            if error.code != EPERM and error.code not in bpf.NO_TCX:
                raise
            return None

    def detach_tcx(self, what: str, name: str, kept: tuple[TcxProgram, ...]) -> None:
        """Detach the link's TCX programs, except those in `kept` and those of BPF links."""
        index = self.index(what, name)

        def work() -> None:
            for program in bpf.programs_on(index):
                if program not in kept and not program.link:
                    bpf.detach(what, index, program)

        run_inside(self.fd, work)

    def disable_tcx(self, what: str, name: str, loaded: bpf.LoadedPrograms) -> None:
        """Detach all TCX programs of the link; a no-op on a kernel without TCX."""
        index = self.index(what, name)

        def work() -> None:
            for program in bpf.programs_on(index):
                if not program.link:
                    loaded.hold(what, program)
                bpf.detach(what, index, program)

        try:
            run_inside(self.fd, work)
        except KernelError as error:
            if error.code not in bpf.NO_TCX:
                raise

    def attach_tcx(self, what: str, op: AttachTcx, loaded: bpf.LoadedPrograms) -> None:
        """Attach a program to the link, and close its descriptor."""
        index = self.index(what, op.name)
        run_inside(self.fd, lambda: bpf.attach(what, index, op.program))
        loaded.release(op.program)

    def add_vrf(self, what: str, op: AddVrf) -> None:
        """Create a VRF whose traffic sockets outside it accept, too."""
        vrf.add(self.netlink, what, op)
        run_inside(self.fd, lambda: vrf.accept_all(self._proc_root, what))

    def set_sysctl(self, what: str, name: str, desired: Sysctl) -> None:
        """Write one sysctl of the link of that name, or set its IPv6 token."""
        if (desired.family, desired.key) == IPV6_TOKEN:
            set_token(self.netlink, what, self.index(what, name), desired.value)
            return
        proc_root = self._proc_root
        run_inside(self.fd, lambda: sysctl.write_value(proc_root, what, name, desired))
