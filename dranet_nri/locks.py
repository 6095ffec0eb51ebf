"""One lock a device, so that work on it is done by one job at a time."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DeviceLocks:
    """The locks of a node's devices, by device name."""

    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    @asynccontextmanager
    async def of(self, names: Iterable[str]) -> AsyncIterator[None]:
        """Hold every lock. Taken in one order, so that two jobs can't wait for each other."""
        async with AsyncExitStack() as stack:
            for name in sorted(set(names)):
                await stack.enter_async_context(self._locks.setdefault(name, asyncio.Lock()))
            yield
