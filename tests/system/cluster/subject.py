"""The real server as the subject of contracts that the in-memory server fulfils as well."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dra_shim.kubeapi import ApiClient, HttpClient
from dra_shim.kubeapi.kubeconfig import from_kubeconfig
from tests.system.cluster.control_plane import ControlPlane


class RealSubject:
    """The API server of a control plane, to its administrator."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ApiClient]:
        """Use the one that runs."""
        api = ApiClient(HttpClient(from_kubeconfig(self._cluster.kubeconfig)))
        try:
            yield api
        finally:
            await api.close()

    def collect_garbage(self) -> None:
        """Leave it to the controller that does."""
