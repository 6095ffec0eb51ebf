"""Times at which the daemon extends leases."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from errno import EIO
from math import inf
from pathlib import Path

import pytest

from dranet_nri.attach.renewal import LeaseRenewer
from dranet_nri.daemon.leases import RETRY_S, LeaseLoop
from dranet_nri.errors import KernelError
from dranet_nri.model import Phase
from tests.dranet_nri.attach.test_renewal import CLAIM, Leased

pytestmark = pytest.mark.process


class Running:
    """The loop of a node, which runs until a condition holds."""

    def __init__(self, leased: Leased) -> None:
        plugin = leased.node.plugin
        self.leased = leased
        self.loop = LeaseLoop(LeaseRenewer(plugin.attacher, plugin.reconciler.is_desired))

    def until(self, holds: Callable[[], bool]) -> None:
        """Run the loop until it holds and nothing is at work."""

        async def run() -> None:
            task = asyncio.create_task(self.loop.run())
            while not holds():  # noqa: ASYNC110 - the loop reports nothing
                await asyncio.sleep(0.01)
            task.cancel()

        asyncio.run(asyncio.wait_for(run(), 30))

    @property
    def due(self) -> float:
        return self.loop._queue.due_of(CLAIM)


@pytest.fixture
def running(tmp_path: Path) -> Running:
    """Return the loop of a node with a lease of 3600 s, from 1000 on."""
    return Running(Leased(tmp_path))


def test_recorded_lease_is_due_at_t1(running: Running) -> None:
    running.until(lambda: running.due < inf)

    assert running.due == 2800


def test_lease_is_renewed_and_due_again(running: Running) -> None:
    running.leased.node.clock.seconds = 2801

    running.until(lambda: running.due not in {inf, 2800})

    assert running.due == 2801 + 1800
    assert running.leased.lease
    assert running.leased.lease.since_s == 2801


def test_unanswered_renewal_is_retried_later(running: Running) -> None:
    running.leased.node.clock.seconds = 2800
    running.leased.server.silent = True

    running.until(lambda: running.due not in {inf, 2800})

    assert running.due == 2800 + (4150 - 2800) / 2


def test_lost_lease_is_no_longer_due(running: Running) -> None:
    running.leased.node.clock.seconds = 5000
    running.leased.server.silent = True

    running.until(lambda: running.leased.record.phase is Phase.INTENT and running.due == inf)


def test_failed_renewal_is_retried_soon(running: Running) -> None:
    running.leased.node.clock.seconds = 2800
    running.leased.server.fails = KernelError("send", EIO)

    running.until(lambda: running.due == 2800 + RETRY_S)


def test_attach_wakes_the_renewal_loop(running: Running) -> None:
    record = running.leased.record
    (device,) = record.devices
    assert device.lease
    running.until(lambda: running.due == 2800)

    running.loop.note(replace(record, devices=(replace(device, lease=None),)))
    assert running.due == inf
    running.leased.node.plugin.attacher.on_attached = running.loop.note
    running.leased.node.stop_pod(running.leased.pod)
    running.leased.node.run_pod(running.leased.pod)
    assert running.due == 2800


def test_renewal_of_a_stopped_sandbox_is_left_to_its_detach(running: Running) -> None:
    running.leased.node.clock.seconds = 2800
    running.leased.server.silent = True
    running.leased.node.plugin.reconciler.synchronized = True
    running.leased.node.plugin.attacher.live.remove(running.leased.pod.sandbox_id)

    running.until(lambda: running.due == 2800 + RETRY_S)
