"""A node with claims of a previous driver of the same name, and an API server with these claims."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dra_shim.kubeapi import CLAIM, ApiClient
from dra_shim.migration.controller import MigrationController, Notice
from dra_shim.prepare import PrepareResult
from dra_shim.settings.common import StatePaths
from dranet_nri.model import Device, DeviceKey, ObjectRef, Version
from tests.dra_shim.kubeapi.client_bench import talking
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import POOL, claim_document, user
from tests.fakes.exchange import Request

ATTRIBUTES = {
    "dra.net/ifName": {"string": "ens5"},
    "dra.net/rdmaDevice": {"string": "mlx5_0"},
    "dra.net/mtu": {"int": 1500},
    "dra.net/sriov": {"bool": False},
    "resource.kubernetes.io/kernel": {"version": "6.1.0"},
    "dra.net/ofANewerServer": {"ints": [1]},
}
NIC = Device(
    "pci-0000-8a-00-0",
    DeviceKey("pci", "0000:8a:00.0", "ens5", "0000:8a:00.0"),
    (
        ("dra.net/ifName", "ens5"),
        ("dra.net/mtu", 1500),
        ("dra.net/pciAddress", "0000:8a:00.0"),
        ("dra.net/rdmaDevice", "mlx5_0"),
        ("dra.net/sriov", False),
        ("resource.kubernetes.io/kernel", Version("6.1.0")),
    ),
    ("mlx5_0",),
)


def slice_of(name: str) -> dict[str, Any]:
    """Return a slice as dranet writes it."""
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": "dra.net",
            "nodeName": POOL,
            "pool": {"name": POOL, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": NIC.name, "attributes": ATTRIBUTES}],
        },
    }


@dataclass
class Bench:
    """A server, a node before the driver was installed, and the calls of prepare."""

    server: FakeApiServer
    api: ApiClient
    state: StatePaths
    clock: FakeClock = field(default_factory=FakeClock)
    notices: list[Notice] = field(default_factory=list)
    prepared: list[tuple[Sequence[ObjectRef], Mapping[str, Device]]] = field(default_factory=list)
    error: str = ""
    over: set[str] = field(default_factory=set)  # UIDs of claims that no pod uses any more

    async def prepare(
        self, claims: Sequence[ObjectRef], devices: Mapping[str, Device]
    ) -> Mapping[str, PrepareResult]:
        """Answer as a preparer does."""
        self.prepared.append((claims, devices))
        return {
            claim.uid: PrepareResult(error=self.error)
            for claim in claims
            if claim.uid not in self.over
        }

    async def add_claim(self, name: str, *results: dict[str, Any], resource: str = "pods") -> str:
        """Add an allocated claim; return its UID."""
        users = [user("train", "p1", resource=resource)]
        document = claim_document(name, "", results, users)
        made = await self.api.create(CLAIM, {**document, "metadata": {"name": name}}, "ai")
        status = document["status"]  # which a server takes from those alone who may allocate
        self.server.alter("resourceclaims", name, lambda entry: entry.update(status=status), "ai")
        metadata: Any = made["metadata"]
        return str(metadata["uid"])

    def controller(self) -> MigrationController:
        """Return the controller that migrates claims of the previous driver."""
        timing = self.clock.timing(lambda: 1.0)
        return MigrationController(
            self.api, POOL, self.state, self.prepare, self.notices.append, timing
        )

    async def run(self) -> None:
        """Migrate claims of the previous driver."""
        await self.controller().run()


@asynccontextmanager
async def node(directory: Path) -> AsyncIterator[Bench]:
    """Yield a node before the driver was installed."""
    state = StatePaths(directory / "state", directory / "run")
    state.directory.mkdir()
    async with talking() as (server, api):
        yield Bench(server, api, state)


def lists_claims(prepared: Request) -> bool:
    """Whether claims are listed."""
    return prepared.method == "GET" and prepared.path.endswith("/resourceclaims")


def lists_slices(prepared: Request) -> bool:
    """Whether slices are listed."""
    return prepared.path.endswith("/resourceslices")
