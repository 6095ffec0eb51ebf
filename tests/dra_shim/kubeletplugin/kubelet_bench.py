"""A shim and a fake kubelet: gRPC on real sockets, and an in-memory API server."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dra_shim.kubeletplugin import (
    Driver,
    KubeletPlugin,
    Notice,
    Service,
    dra_services,
    sockets_of,
)
from dra_shim.kubeletplugin.plugin import WATCH_S
from dra_shim.settings.common import StatePaths
from tests.dra_shim.prepare.prepare_bench import Bench
from tests.fakes.clock import FakeClock
from tests.fakes.kubelet import OF_1_37, FakeKubelet


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """Return a directory in which sockets have room for their names, whatever TMPDIR is."""
    with TemporaryDirectory(prefix="dra-", dir="/tmp") as name:
        yield Path(name)


class Node:
    """A node with a kubelet, and a shim whose clock the test has."""

    def __init__(self, directory: Path, services: Sequence[str] = OF_1_37) -> None:
        self.kubelet = FakeKubelet(directory / "k", services)
        self.bench = Bench(StatePaths(directory / "state", directory / "run"))
        self.sockets = sockets_of(directory / "k", "dra.net")
        self.clock = FakeClock()
        self.notices: list[Notice] = []
        self.plugin = self.new_plugin()

    def close(self) -> None:
        """Let the shim's records go."""
        self.bench.close()

    def new_plugin(
        self, driver: Driver | None = None, more: Sequence[Service] = ()
    ) -> KubeletPlugin:
        """Return a shim that is not yet running, as after a restart of its process."""
        self.plugin = KubeletPlugin(
            "dra.net",
            self.sockets,
            (*dra_services(driver or self.bench.preparer), *more),
            self.notices.append,
            clock=self.clock,
            sleep=self.clock.sleep,
        )
        return self.plugin

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the shim; it has tended its sockets once when this begins."""
        task = asyncio.create_task(self.plugin.run())
        try:
            await self.clock.until_asleep(WATCH_S)
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
        assert task.cancelled()

    @asynccontextmanager
    async def registered(self) -> AsyncIterator[None]:
        """Run kubelet and shim, which know each other when this begins."""
        self.kubelet.start()
        async with self.running():
            await self.kubelet.look()
            assert self.kubelet.trouble == []
            yield
        await self.kubelet.restart()

    async def watch(self, times: int = 1) -> None:
        """Let the shim look at its sockets, when it would and so often."""
        for _ in range(times):
            self.clock.pass_time(WATCH_S)
            await self.clock.until_asleep(WATCH_S)
