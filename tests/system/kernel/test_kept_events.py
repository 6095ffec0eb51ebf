"""Events of links and routes between two attaches: the plugin takes them as they come."""

import os
import select
import subprocess
from pathlib import Path

from dranet_nri.kernel.namespace import kept_facts_here
from dranet_nri.kernel.netns import run_inside
from tests.box.waiting import wait_until
from tests.dranet_nri.daemon.daemon_bench import Site, launched
from tests.system.kernel.namespaces import open_netns

COMMANDS = (
    *("link add va type veth peer vb", "addr add 192.0.2.1/24 dev va"),
    *("link set va up", "link set vb up"),
)
GROUPS, QUEUED = 3, 4  # columns of /proc/net/netlink
LINK_GROUP = 1  # of RTNLGRP_LINK, as a bit


def test_events_of_each_fact_are_taken() -> None:
    with open_netns() as host:
        facts = run_inside(host, kept_facts_here)
        for words in COMMANDS:
            command = ("ip", *words.split())
            run_inside(host, lambda: subprocess.run(command, check=True))  # noqa: B023
        assert len(select.select(facts.filenos(), [], [], 0)[0]) == 2

        facts.take_events()

        assert select.select(facts.filenos(), [], [], 0)[0] == []


def test_events_do_not_wait_in_the_queues_for_an_attach(tmp_path: Path) -> None:
    with open_netns() as host:
        inside = ("nsenter", f"--net=/proc/{os.getpid()}/fd/{host}")
        with launched((*inside, *Site(tmp_path).command())) as plugin:

            def sockets() -> list[list[str]]:
                """Return the netlink sockets of its network namespace, which all are its own."""
                text = Path(f"/proc/{plugin.pid}/net/netlink").read_text()
                return [row.split() for row in text.splitlines()[1:]]

            def listens() -> bool:
                own = Path(f"/proc/{plugin.pid}/ns/net").stat().st_ino == os.fstat(host).st_ino
                return own and any(int(row[GROUPS], 16) & LINK_GROUP for row in sockets())

            wait_until("a socket for events of links", listens)
            for words in COMMANDS:
                command = ("ip", *words.split())
                run_inside(host, lambda: subprocess.run(command, check=True))  # noqa: B023

            wait_until("all events", lambda: all(row[QUEUED] == "0" for row in sockets()))
            assert plugin.poll() is None
