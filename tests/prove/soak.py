"""Soak test: a thousand pods come and go, and the plugin uses no more resources at the end.

Where NICs have RDMA devices each pod has two, and every cycle checks where those are.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from dranet_nri._gen import nri_pb2
from dranet_nri.component.threads import MAX_IDLE
from dranet_nri.model import Device, ObjectRef
from dranet_nri.nri.wire.messages import PodEventKind
from dranet_nri.state.store import AllocationStore
from tests.box.waiting import wait_until
from tests.fakes.runtime import RuntimeConnection, RuntimeServer, pod_message
from tests.prove import namespaces, observed_state, rdma_functions
from tests.prove.environment import HostEnvironment
from tests.prove.plugin_process import PluginProcess, plugin
from tests.prove.scenario import LONG_NANO, ROOT
from tests.prove.shapes import allocations, device_of, shape
from tests.prove.site import Site
from tests.prove.table import Tally, is_listed, keep, print_now

CYCLES: Final = 1000
BEATS: Final = 10  # samples of the process
IDLE_THREADS: Final = 2 + MAX_IDLE  # the event loop's, the log's, and those that wait for a job
GROWTH_KIB: Final = 2048  # of memory, from the samples after the first to the last ones


@dataclass(frozen=True, slots=True)
class ProcessResources:
    """Resources of a process."""

    descriptors: int
    threads: int
    rss_kib: int
    namespaces: int


def process_resources(pid: int) -> ProcessResources:
    """Return the current resources of a process."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return ProcessResources(
        descriptors=len(tuple(Path(f"/proc/{pid}/fd").iterdir())),
        threads=int(status["Threads"]),
        rss_kib=int(status["VmRSS"].split()[0]),
        namespaces=len(observed_state.namespaces_of(pid)),
    )


def run(environment: HostEnvironment, cycles: int = CYCLES) -> bool:
    """Let the pods come and go; keep the line; return whether all is flat."""
    name = f"{environment.tier} soak: "
    if is_listed(name):
        return True
    begin = time.monotonic()
    site = Site(ROOT / "soak")
    site.root.mkdir(parents=True)
    scanned, refused = asyncio.run(_cycles(environment, site, cycles))
    shutil.rmtree(site.root)
    flat = is_flat(scanned)
    last, grown = scanned[-1], scanned[-1].rss_kib - scanned[1].rss_kib
    what = (
        f"{name}{last.descriptors} descriptors, {last.threads} threads,"
        f" {last.rss_kib} KiB ({grown:+d}), {last.namespaces} namespaces held"
    )
    seconds = time.monotonic() - begin
    keep(Tally(what, rows=cycles, misconfigured=refused, other=int(not flat), seconds=seconds))
    return flat and not refused


def is_flat(scanned: Sequence[ProcessResources]) -> bool:
    """Return whether the last samples show no more than those after the first, a warm-up.

    Of three samples the least counts: one can meet the heartbeat's file while it is open.
    """
    early, late = (_least(some) for some in (scanned[1:4], scanned[-3:]))
    return (
        late.descriptors <= early.descriptors
        and late.threads <= max(early.threads, IDLE_THREADS)
        and late.namespaces <= early.namespaces
        and late.rss_kib - early.rss_kib <= GROWTH_KIB
    )


def _least(scanned: Sequence[ProcessResources]) -> ProcessResources:
    return ProcessResources(
        descriptors=min(reading.descriptors for reading in scanned),
        threads=min(reading.threads for reading in scanned),
        rss_kib=min(reading.rss_kib for reading in scanned),
        namespaces=min(reading.namespaces for reading in scanned),
    )


async def _cycles(
    environment: HostEnvironment, site: Site, cycles: int
) -> tuple[list[ProcessResources], int]:
    scanned: list[ProcessResources] = []
    refused = 0
    store = AllocationStore(site.settings.allocations)
    numbers = count()
    async with RuntimeServer(str(site.settings.nri_socket)) as server:
        with plugin(site) as subject:
            runtime = await server.connection()
            await runtime.handshake()
            for _ in range(BEATS):
                for _ in range(cycles // BEATS):
                    refused += await _cycle(environment, store, runtime, next(numbers))
                scanned.append(_quiet(subject))
                print_now(f"soak: {scanned[-1]}")
            refused += not _is_restored(environment)
    store.close()
    return scanned, refused


def _is_restored(environment: HostEnvironment) -> bool:
    """Return whether the host becomes as it was: link-local addresses come when the link is up."""
    try:
        wait_until("the host to be as it was", lambda: not environment.changed())
    except TimeoutError:
        print_now(f"soak: the host is not as it was: {environment.changed()}")
        return False
    return True


def _quiet(subject: PluginProcess) -> ProcessResources:
    """Return the resources once the last cycle's threads and namespaces are gone."""
    scanned: list[ProcessResources] = []

    def is_idle() -> bool:
        scanned.append(process_resources(subject.pid))
        return scanned[-1].threads <= IDLE_THREADS

    wait_until("threads to end", is_idle)
    return scanned[-1]


async def _cycle(
    environment: HostEnvironment, store: AllocationStore, runtime: RuntimeConnection, number: int
) -> bool:
    """Run and stop one pod; return whether anything was refused or left behind."""
    name = f"soak{number}"
    pod = pod_message(name, uid=f"{name}-uid", netns=f"/run/netns/{name}")
    kind = shape("attach 2 claims" if environment.before["rdma"] else "attach 1 NIC")
    devices = [device_of(nic.name) for nic in environment.nics[: kind.count]]
    claims = allocations(kind, devices, ObjectRef("default", name, pod.uid))
    for claim in claims:
        store.put(claim)
    namespaces.add(name)
    fake = runtime.runtime
    answers = [await runtime.answer(fake.pod_event(PodEventKind.RUN, pod, LONG_NANO))]
    container = nri_pb2.Container(id="c", pod_sandbox_id=name, name="main")
    answers.append(await runtime.answer(fake.create_container(pod, container, LONG_NANO)))
    problems = _misplaced(environment, name, devices)
    answers.append(await runtime.answer(fake.pod_event(PodEventKind.STOP, pod, LONG_NANO)))
    answers.append(await runtime.answer(fake.pod_event(PodEventKind.REMOVE, pod, LONG_NANO)))
    if rdma_functions.shown_in() != environment.before["rdma"]:
        problems.append(f"on the host are {rdma_functions.shown_in()}")
    namespaces.delete(name)
    for claim in claims:
        store.remove(claim.claim.uid)
    problems += (answer.status.message for answer in answers if answer.status is not None)
    if problems:
        print_now(f"soak: {name}: {'; '.join(problems)}")
    return bool(problems)


def _misplaced(environment: HostEnvironment, netns: str, devices: Sequence[Device]) -> list[str]:
    """Return what of the pod's NICs and RDMA devices is not in its namespace, and nowhere else."""
    names = {device.key.name for device in devices}
    links = observed_state.links(netns)
    problems = [f"{name} is not in the pod" for name in sorted(names - links)]
    before = environment.before["rdma"]
    assert isinstance(before, list)
    moved = [row for row in before if json.loads(row)[-1] in names]
    inside, outside = rdma_functions.shown_in(netns), rdma_functions.shown_in()
    if inside != moved or outside != [row for row in before if row not in moved]:
        problems.append(f"in the pod are {inside}, on the host {outside}")
    return problems
