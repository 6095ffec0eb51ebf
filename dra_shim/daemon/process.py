"""Shim process: its workers, supervised until it is stopped.

At shutdown the registration at the kubelet ends first, then the calls in progress. Records, slices
and claim status stay; the next instance continues from them.
"""

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, closing

from dra_shim.cel import SelectorError, filter_devices
from dra_shim.daemon.log_sink import LogSink
from dra_shim.daemon.wiring import Shim
from dra_shim.discovery import DeviceSelection
from dra_shim.kubeapi import ApiClient, connect, rest_config_of
from dra_shim.kubeletplugin import only_instance, sockets_of
from dra_shim.settings.run import RunSettings
from dranet_nri.component.log import logger
from dranet_nri.component.supervisor import Supervisor
from dranet_nri.errors import InvalidValueError
from dranet_nri.inventory import parse_vm_size
from dranet_nri.model import DRIVER_NAME


class ShimDaemon:
    """One shim process."""

    def __init__(self, settings: RunSettings, environ: Mapping[str, str]) -> None:
        """Check the settings; nothing is opened before run.

        Raises:
            InvalidValueError: a setting is not usable, or there is no access to an API server.
        """
        self._settings = settings
        self._log = logger("daemon")
        access = rest_config_of(settings.kubeconfig, environ)
        self._choice = DeviceSelection(
            settings.filter, settings.shared, settings.include, settings.exclude,
            settings.numa_lists, settings.uplinks, settings.move_ipoib, settings.parents,
        )  # fmt: skip
        _check_expressions(settings)
        parse_vm_size(settings.azure_size)
        self._http = connect(access)
        self._sockets = sockets_of(settings.kubelet_root, DRIVER_NAME)
        self._log_sink = LogSink(time.monotonic)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        for name, why in self._settings.ignored:
            self._log.warning("flag of dranet has no effect", flag=name, reason=why)
        work = asyncio.create_task(self._serve(), name="serve")
        told = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait((work, told), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            self._log.info("stopping")
            work.cancel()
        told.cancel()
        await asyncio.wait((work,))
        if not work.cancelled():
            work.result()
        self._log.info("stopped")

    async def _serve(self) -> None:
        async with AsyncExitStack() as stack:
            api = ApiClient(self._http)
            stack.push_async_callback(api.close)
            who = f"pid {os.getpid()}"
            await stack.enter_async_context(
                only_instance(self._sockets.lock, who, self._log_sink.waiting)
            )
            # Blocks `dra-shim allocate`, whose records would be orphans beside a daemon.
            state = self._settings.state
            state.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            await stack.enter_async_context(
                only_instance(state.daemon_lock, who, self._log_sink.waiting)
            )
            self._log.info("serving", node=self._settings.node, pid=os.getpid())
            with closing(
                Shim(self._settings, self._choice, self._sockets, api, self._log_sink)
            ) as shim:
                stack.push_async_callback(shim.disconnect)
                await Supervisor(shim.parts(), shim.failed, clock=time.monotonic).run()


def _check_expressions(settings: RunSettings) -> None:
    for flag, expression in (("--filter", settings.filter), ("--shared", settings.shared)):
        try:
            filter_devices(expression, ())
        except SelectorError as error:
            raise InvalidValueError(f"{flag}: {error}") from error
