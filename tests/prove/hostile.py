"""Rows of hostile pods: each does one thing to its namespace, and ends.

A row passes if the NIC is then on the host as it was or, where it no longer exists, that is
reported; and if another NIC of the node moves into a pod and back in the meantime.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from subprocess import CalledProcessError
from typing import Final

from dranet_nri._gen import nri_pb2
from dranet_nri.model import Allocation, ObjectRef
from dranet_nri.nri.wire.messages import PodEventKind
from dranet_nri.state.store import AllocationStore
from tests.box.nics import ip
from tests.fakes.runtime import RuntimeConnection, RuntimeServer, pod_message
from tests.prove import namespaces, observed_state
from tests.prove.attacks import ATTACKS, Attack, End, Hostile
from tests.prove.environment import Failed, HostEnvironment, Loss
from tests.prove.plugin_process import plugin
from tests.prove.scenario import LONG_NANO, ROOT, SETTLED_S
from tests.prove.shapes import allocations, device_of, shape
from tests.prove.site import Site
from tests.prove.table import Tally, is_listed, keep, print_now

_RESYNC_S: Final = 1.0  # a NIC that returns later is restored by a reconcile


@dataclass
class _Pod:
    """A pod with one NIC."""

    message: nri_pb2.PodSandbox
    claim: Allocation
    nic: str

    @property
    def netns(self) -> str:
        """Return the name of its namespace."""
        return self.message.id


class Row:
    """One attack in an environment of at least two NICs."""

    def __init__(self, environment: HostEnvironment, attack: Attack) -> None:
        """Record two claims."""
        self.environment, self.attack = environment, attack
        self.number = next(environment.numbers)
        self.site = Site(ROOT / f"hostile{self.number}", _RESYNC_S)
        self.site.root.mkdir(parents=True)
        self.nested = f"nested{self.number}"
        with closing(AllocationStore(self.site.settings.allocations)) as store:
            self.hostile, self.other = (
                self._pod(store, nic.name, word)
                for nic, word in zip(environment.nics, ("hostile", "other"), strict=False)
            )

    def _pod(self, store: AllocationStore, nic: str, word: str) -> _Pod:
        name = f"{word}{self.number}"
        pod = pod_message(name, uid=f"{name}-uid", netns=f"/run/netns/{name}")
        owner = ObjectRef("default", name, pod.uid)
        (claim,) = allocations(shape("attach 1 NIC"), [device_of(nic)], owner)
        store.put(claim)
        return _Pod(pod, claim, nic)

    async def run(self) -> None:
        """Run the pods.

        Raises:
            Failed: it did not end as it must.
        """
        async with RuntimeServer(str(self.site.settings.nri_socket)) as server:
            with plugin(self.site) as process:
                runtime = await server.connection()
                await runtime.handshake()
                await self._start(runtime, self.hostile)
                namespaces.add(self.nested)
                beside = observed_state.host_state()
                self._attack()
                await self._start(runtime, self.other)
                await self._end(runtime, self.other)
                await _until(
                    lambda: self.environment.changed(beside), "another NIC while the pod ran"
                )
                await self._end(runtime, self.hostile)
                if self.attack.end is not End.RESTORED:
                    await _until(self._unreported, "the record")
                    namespaces.delete(self.nested)
                if self.returns:
                    await _until(self.environment.changed, "after the pod")
                if not process.alive or process.stop() != 0:
                    raise Failed(Loss.HUNG, "the plugin ended badly")

    @property
    def returns(self) -> bool:
        """Whether the NIC is restored in the end."""
        end = self.attack.end
        return end is End.RESTORED or (end is End.NESTED and self.environment.hardware)

    def clear(self) -> None:
        """Delete what is left of the row; make the NICs anew if one is lost."""
        for name in (self.hostile.netns, self.other.netns, self.nested):
            if observed_state.exists(name):
                namespaces.delete(name)
        shutil.rmtree(self.site.root, ignore_errors=True)

    def _attack(self) -> None:
        netns, nic = self.hostile.netns, self.hostile.nic
        row = ip("-n", netns, "-o", "link", "show", nic)
        index, mac = int(row.split(":")[0]), row.split("link/ether ")[1].split()[0]
        try:
            self.attack.do(Hostile(netns, self.nested, nic, self.other.nic, mac, index))
        except CalledProcessError as error:
            detail = " ".join((str(error), *getattr(error, "__notes__", ())))
            raise Failed(Loss.HUNG, f"the attack itself: {detail}") from error

    async def _start(self, runtime: RuntimeConnection, pod: _Pod) -> None:
        """Run a pod and its container.

        Raises:
            Failed: one is refused, or the NIC is not there.
        """
        namespaces.add(pod.netns)
        await _call(runtime, PodEventKind.RUN, pod)
        container = nri_pb2.Container(id="c", pod_sandbox_id=pod.netns, name="main")
        call = runtime.runtime.create_container(pod.message, container, LONG_NANO)
        answer = await runtime.answer(call)
        if answer.status is not None:
            raise Failed(Loss.MISCONFIGURED, f"{pod.netns}: {answer.status.message}")
        if pod.nic not in observed_state.links(pod.netns):
            raise Failed(Loss.MISCONFIGURED, f"{pod.nic} is not in {pod.netns}")

    async def _end(self, runtime: RuntimeConnection, pod: _Pod) -> None:
        await _call(runtime, PodEventKind.STOP, pod)
        namespaces.delete(pod.netns)
        await _call(runtime, PodEventKind.REMOVE, pod)

    def _unreported(self) -> str:
        """Return why the loss of the NIC is not reported, "" if it is."""
        if observed_state.links() & {self.hostile.nic}:
            return f"a link {self.hostile.nic} is on the host"
        settings = self.site.settings
        directories = ("--allocations-dir", settings.allocations, "--run-dir", settings.run)
        command = ("dranet-nri", "status", "--output", "json", *directories)
        # It exits 1 where the plugin is in trouble: rows are looked for anyhow.
        shown = subprocess.run(command, check=False, capture_output=True, text=True).stdout
        reasons = [
            row["reason"]
            for row in json.loads(shown)["devices"]
            if row["claim"] == str(self.hostile.claim.claim)
        ]
        # Of a NIC that a reconcile missed while its pod ran, the failed attach tells.
        names = ("lsns --type net", "another namespace has it")
        reported = any(word in reason for reason in reasons for word in names)
        return "" if reported else f"the status says {reasons}"


async def _until(problem: Callable[[], str], what: str) -> None:
    """Wait until there is no problem.

    Raises:
        Failed: one remains.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + SETTLED_S
    while text := problem():
        if loop.time() > end:
            raise Failed(Loss.MISCONFIGURED, f"{what}: {text}")
        await asyncio.sleep(0.05)


async def _call(runtime: RuntimeConnection, kind: PodEventKind, pod: _Pod) -> None:
    answer = await runtime.answer(runtime.runtime.pod_event(kind, pod.message, LONG_NANO))
    if answer.status is not None:
        raise Failed(Loss.MISCONFIGURED, f"{pod.netns}, {kind}: {answer.status.message}")


def fitting(environment: HostEnvironment, names: Sequence[str] = ()) -> tuple[Attack, ...]:
    """Return the attacks that the NICs support and that have one of the words, or all."""
    return tuple(
        attack
        for attack in ATTACKS
        if not (attack.virtual and environment.hardware)
        and (not names or any(word in attack.name for word in names))
    )


def run_row(environment: HostEnvironment, attack: Attack) -> Failed | None:
    """Run one row; return its failure, if any. The environment is restored afterwards."""
    row = Row(environment, attack)
    found: Failed | None = None
    try:
        asyncio.run(asyncio.wait_for(row.run(), 10 * SETTLED_S))
    except Failed as error:
        found = error
    except (ConnectionError, TimeoutError) as error:
        found = Failed(Loss.HUNG, repr(error))
    row.clear()
    if found or not row.returns:
        environment.restore()
    return found


def run(environment: HostEnvironment, names: Sequence[str] = ()) -> bool:
    """Play all rows; keep the line; return whether all went well."""
    name = f"{environment.tier} hostile pods"
    if is_listed(name):
        return True
    begin = time.monotonic()
    losses: Counter[Loss] = Counter()
    attacks = fitting(environment, names)
    for attack in attacks:
        found = run_row(environment, attack)
        print_now(f"{environment.tier} {attack.name}: {found or 'as it must be'}")
        if found:
            losses[found.loss] += 1
    keep(
        Tally(
            name,
            rows=len(attacks),
            misconfigured=losses[Loss.MISCONFIGURED],
            other=losses[Loss.HUNG],
            seconds=time.monotonic() - begin,
        )
    )
    return bool(attacks) and not losses
