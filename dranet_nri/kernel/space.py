"""One network namespace that a session has open, and what a plan can ask of it."""

import os

from dranet_nri.kernel import sysctl
from dranet_nri.kernel.addresses import dump_addresses
from dranet_nri.kernel.neighbours import dump_neighbours
from dranet_nri.kernel.netns import run_inside, socket_in
from dranet_nri.kernel.routes import dump_routes, without_implied
from dranet_nri.kernel.rules import rules_of
from dranet_nri.model import Link, LinkState, Ns, Rule, Sysctl
from dranet_nri.netlink.links import IFLA_AF_SPEC, Seen, index_of
from dranet_nri.netlink.rtnetlink import NETLINK_ROUTE, Rtnetlink, prepared


class Space:
    """A namespace with its one socket.

    Attributes:
        ns: which of the plan's two namespaces it is.
        fd: descriptor of the namespace, owned.
        netlink: the socket, owned.
    """

    def __init__(self, ns: Ns, nsfd: int, proc_root: str) -> None:
        """Take nsfd over, also where this fails, and enter once to open the socket.

        Raises:
            KernelError: the namespace cannot be entered.
        """
        self.ns = ns
        self.fd = nsfd
        try:
            self.netlink: Rtnetlink = prepared(socket_in(nsfd, NETLINK_ROUTE))
        except BaseException:
            os.close(nsfd)
            raise
        self._proc_root = proc_root

    def close(self) -> None:
        """Close socket and descriptor. Idempotent."""
        self.netlink.close()
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def index(self, what: str, name: str) -> int:
        """Return the ifindex of the link of that name; KernelError ENODEV if there is none."""
        return index_of(self.netlink, what, name)

    def state(self, link: Link, links: tuple[Seen, ...], rules: tuple[Rule, ...]) -> LinkState:
        """Return everything of one link.

        Of sysctls, a host's tell what a move resets, and a pod's what a claim can set.

        Args:
            link: the link.
            links: every link of the namespace, for the names of masters and legs.
            rules: every rule of the namespace.
        """
        names = {seen.index: seen.name for seen in links}
        if self.ns is Ns.POD:
            specs = (seen.attrs.get(IFLA_AF_SPEC, b"") for seen in links if seen.name == link.name)
            sysctls = sysctl.set_by_claims(next(specs, b""))
        else:
            sysctls = self.sysctls(link.name)
        addresses = dump_addresses(self.netlink, self.ns, link.index, link.name)
        routes = without_implied(dump_routes(self.netlink, self.ns, link.index, names), addresses)
        return LinkState(
            link=link,
            master_name=names.get(link.master, "") if link.master else "",
            addresses=addresses,
            routes=routes,
            rules=rules_of(rules, link.name, {route.table for route in routes}),
            neighbours=dump_neighbours(self.netlink, self.ns, link.index, link.name),
            sysctls=sysctls,
        )

    def sysctls(self, name: str) -> tuple[Sysctl, ...]:
        """Return the sysctls of the link that a move resets and that differ from the defaults."""

        def read() -> tuple[Sysctl, ...]:
            defaults = sysctl.read_values(self._proc_root, "default")
            return sysctl.changed(sysctl.read_values(self._proc_root, name), defaults)

        return run_inside(self.fd, read)

    def set_sysctl(self, what: str, name: str, wanted: Sysctl) -> None:
        """Write one sysctl of the link of that name."""
        proc_root = self._proc_root
        run_inside(self.fd, lambda: sysctl.write_value(proc_root, what, name, wanted))
