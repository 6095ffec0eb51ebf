"""A reporter whose API server refuses requests, for one test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dra_shim.settings.common import StatePaths
from dranet_nri.model import ObjectRef
from tests.dra_shim.kubeapi.client_bench import talking
from tests.dra_shim.kubeapi.test_contract import allocated_claim
from tests.dra_shim.status.status_bench import Bench, given, ref_of
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.documents import status
from tests.fakes.exchange import Request, Response

CLAIM = ObjectRef("default", "fast", "c1")


@asynccontextmanager
async def reporting(
    directory: Path, server: FakeApiServer | None = None
) -> AsyncIterator[tuple[FakeApiServer, Bench]]:
    """Run a reporter and a server in memory."""
    async with talking(server) as (running, api):
        bench = Bench(api, StatePaths(directory / "state", directory / "run"))
        async with bench.running():
            yield running, bench


async def prepared(bench: Bench, *devices: str) -> ObjectRef:
    """Record a claim that the server has as well."""
    ref = ref_of(await allocated_claim(bench.api, *devices))
    bench.allocations.put(given(ref, *devices))
    return ref


def is_apply(request: Request) -> bool:
    """Whether the request writes a status."""
    return request.method == "PATCH" and request.query["fieldManager"] == "dra.net"


def is_event_post(request: Request) -> bool:
    """Whether the request is about an event."""
    return "/events" in request.path


def is_event_update(request: Request) -> bool:
    """Whether the request reads an event in order to count."""
    return request.method == "GET" and is_event_post(request)


def refusal(code: int, reason: str, **details: Any) -> Response:
    """Return an answer that refuses."""
    return Response(code, status(code, reason, "no", **details), {"Retry-After": "90"})


def right_missing() -> Response:
    """Return what a server of 1.36 and newer answers for want of the driver's own right."""
    message = (
        'Forbidden: changing status.devices requires resource="resourceclaims/driver", '
        'verb="[associated-node:patch arbitrary-node:patch]" permission: denied'
    )
    causes = [{"field": "status.devices", "message": message}]
    return Response(422, status(422, "Invalid", message, causes=causes))
