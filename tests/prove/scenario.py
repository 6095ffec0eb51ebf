"""Row of the crash matrix: a pod, its claims, and a plugin that dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from dranet_nri._gen import nri_pb2
from dranet_nri.cdi.names import cdi_ids
from dranet_nri.model import Allocation, ObjectRef, is_temporary_name
from dranet_nri.nri.wire.messages import PodEventKind
from dranet_nri.state.reader import AttachmentReader
from dranet_nri.state.store import AllocationStore
from tests.box.waiting import SLOWDOWN, wait_until
from tests.fakes.runtime import RuntimeConnection, RuntimeServer, pod_message
from tests.prove import dhcp_server, host_setup, namespaces, observed_state
from tests.prove.environment import After, Failed, HostEnvironment, Loss, differences
from tests.prove.plugin_process import PluginProcess, plugin
from tests.prove.shapes import Act, Shape, allocations, device_of
from tests.prove.site import RESYNC_S, Site

SETTLED_S: Final = 40.0 * SLOWDOWN
LEFT_RESYNC_S: Final = 1.0  # only a reconcile detects that a NIC left its pod
LONG_NANO: Final = 600_000_000_000
ROOT: Final = Path("/run/prove")


class CrashScenario:
    """One row: a site, a pod and its claims."""

    def __init__(self, environment: HostEnvironment, shape: Shape) -> None:
        """Record the claims."""
        self.environment, self.shape = environment, shape
        self.number = next(environment.numbers)
        self.nics = environment.nics[: shape.count]
        resync_s = LEFT_RESYNC_S if shape.act is Act.LEFT else RESYNC_S
        self.site = Site(ROOT / str(self.number), resync_s)
        self.site.root.mkdir(parents=True)
        self.uid = f"uid{self.number}"
        self.pods: list[nri_pb2.PodSandbox] = []
        self.taken: list[str] = []  # names that other links have
        self.netns = ""
        store = AllocationStore(self.site.settings.allocations)
        devices = [device_of(nic.name) for nic in self.nics]
        self.claims = allocations(shape, devices, ObjectRef("default", "pod", self.uid))
        for claim in self.claims:
            store.put(claim)
        store.close()

    def sandbox(self) -> nri_pb2.PodSandbox:
        """Make the pod's next sandbox."""
        self.netns = f"prove{self.number}-{len(self.pods)}"
        namespaces.add(self.netns)
        pod = pod_message(self.netns, uid=self.uid, netns=f"/run/netns/{self.netns}")
        pod.pid = 1
        self.pods.append(pod)
        return pod

    def destroy(self) -> None:
        """Destroy the pod's namespaces; return when the kernel has returned hardware."""
        for pod in self.pods:
            if observed_state.exists(pod.id):
                namespaces.delete(pod.id)
        if self.environment.hardware:
            wait_until("the kernel to return hardware", lambda: self.on_host(), SETTLED_S)

    def on_host(self) -> bool:
        """Whether every NIC is on the host, under whatever name."""
        return all(
            Path("/sys/bus/pci/devices", device.device.key.parent, kind).is_dir()
            for claim in self.claims
            for device in claim.devices
            for kind in ("net", "infiniband")
            if device.device.key.bus and (kind == "net" or device.device.rdma_devices)
        )

    # ------------------------------------------------------------------- looking

    def gate(self, claim: Allocation) -> str:
        """Return the claim's CDI spec, "" while its gate is closed."""
        try:
            return self.site.spec(claim.claim.uid).read_text()
        except FileNotFoundError:
            return ""

    def problem_in_pod(self) -> str:
        """Return what the pod lacks, "" if it is whole and its gates are open."""
        for claim in self.claims:
            spec = self.gate(claim)
            if f"/run/netns/{self.netns}" not in spec:
                return f"gate of {claim.claim.name} is {'of another sandbox' if spec else 'closed'}"
        return differences(
            self.environment.whole[self.shape.name], observed_state.in_netns(self.netns)
        )

    def problem_on_host(self) -> str:
        """Return what is not as it was, "" if the host is and the gates are closed.

        Of a share nothing leaves the host, so the records are asked as well.
        """
        return self.problem_by_names() or self.environment.changed() or self.problem_in_records()

    def problem_by_names(self) -> str:
        """Return which files are left, or which NICs are not on the host, "" if there are none."""
        left = [
            str(path)
            for root in (self.site.settings.cdi, self.site.settings.metadata)
            if root.exists()
            for path in root.rglob("*")
        ]
        if left:
            return f"files left: {left}"
        missing = [nic.name for nic in self.nics if not Path("/sys/class/net", nic.name).exists()]
        return f"not on the host: {missing}" if missing else ""

    def problem_in_records(self) -> str:
        """Return which claims a pod has by their records, "" if there are none."""
        owning_claims = self.owning_claims()
        return f"recorded as in the pod: {owning_claims}" if owning_claims else ""

    def problem_waiting(self) -> str:
        """Return what is wrong with NICs that wait on the host for their names, "" if nothing."""
        waiting = [name for name in observed_state.links() if is_temporary_name(name)]
        return "" if len(waiting) == len(self.taken) else f"{waiting} wait for {self.taken}"

    def owning_claims(self) -> list[str]:
        """Return the claims that a pod has by their records."""
        directory = self.site.settings.attachments
        if not any(directory.glob("*")):
            return []  # a reader watches the directory, and the kernel is slow to end a watch
        with AttachmentReader(directory, owner=None) as attachments:
            return [record.claim.name for record in attachments.records() if record.owns_devices]

    def refuse_unguarded(self) -> None:
        """Refuse an open gate whose NICs are not configured in the sandbox it names.

        Raises:
            Failed: there is one.
        """
        whole = self.environment.whole[self.shape.name]
        for claim in self.claims:
            spec = self.gate(claim)
            if not spec:
                continue
            (netns,) = [pod.id for pod in self.pods if f"/run/netns/{pod.id}" in spec]
            facts = observed_state.in_netns(netns) if observed_state.exists(netns) else frozenset()
            for device in () if self.shape.shared else claim.devices:
                name = device.config.interface.name or device.device.key.name
                missing = observed_state.of_link(whole, name) - facts
                if missing or not observed_state.of_link(whole, name):
                    raise Failed(Loss.UNGUARDED, f"gate of {name} is open without {missing}")

    def loss(self) -> Loss:
        """Return what is wrong with NICs that are not where they should be."""
        if self.environment.hardware:
            return Loss.MISCONFIGURED  # it is somewhere: a PCI function can't vanish
        present = observed_state.links() | {
            name
            for pod in self.pods
            if observed_state.exists(pod.id)
            for name in observed_state.links(pod.id)
        }
        names = {
            name
            for claim in self.claims
            for device in claim.devices
            for name in [(device.device.key.name, device.config.interface.name)]
        }
        gone = [own for own, given in names if own not in present and given not in present]
        return Loss.LOST if gone else Loss.MISCONFIGURED

    async def until(self, problem: Callable[[], str], what: str) -> None:
        """Wait until there is no problem.

        Raises:
            Failed: one remains.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + SETTLED_S
        while text := problem():
            if loop.time() > end:
                raise Failed(self.loss(), f"{what}: {text}")
            await asyncio.sleep(0.03)

    # ------------------------------------------------------------------- acting

    async def run(self, after: After, last: int, word: str) -> tuple[str, bool]:
        """Do the act while the plugin dies after that event, then take over.

        Returns:
            The event, and whether it was reached.

        Raises:
            Failed: it did not end as it must.
        """
        async with self._runtime() as server:
            if self.shape.act is Act.DESTROYED:
                await self._lose_namespace(server)
            elif self.shape.act is Act.RECOVER:
                await self._die_amid_attach(server, after)
            with plugin(self.site, last, word) as process:
                died = await self._cut_short(server, process, after)
                process.kill()
            event = self.site.died.read_text() if died else "answered"
            self.refuse_unguarded()
            await self._take_over(server, after)
        return event, died

    async def record_expected(self) -> None:
        """Do the act without a crash, and record the state of the pod as expected.

        Raises:
            Failed: it fails without a crash.
        """
        async with self._runtime() as server:
            with plugin(self.site):
                runtime = await server.connection()
                await runtime.handshake()
                pod = self.sandbox()
                refusal = await self._call(runtime, PodEventKind.RUN, pod)
                if (self.shape.act is Act.UNDO) != bool(refusal):
                    raise Failed(Loss.MISCONFIGURED, refusal or "the kernel refuses nothing")
                await self.until(
                    lambda: str(sorted(observed_state.unrouted(self.netns)) or ""),
                    "without a crash",
                )
                self.environment.whole[self.shape.name] = observed_state.in_netns(self.netns)
                if not refusal and self.problem_in_pod():
                    raise Failed(Loss.MISCONFIGURED, self.problem_in_pod())
                await self._end(runtime, pod)

    @asynccontextmanager
    async def _runtime(self) -> AsyncIterator[RuntimeServer]:
        """Serve the plugin, and the NIC where the claim has a lease."""
        with dhcp_server.served() if self.shape.has_lease else nullcontext():
            async with RuntimeServer(str(self.site.settings.nri_socket)) as server:
                yield server

    async def _lose_namespace(self, server: RuntimeServer) -> None:
        with plugin(self.site) as first:
            runtime = await server.connection()
            await runtime.handshake()
            await self._call(runtime, PodEventKind.RUN, self.sandbox())
            first.kill()
        self.destroy()

    async def _die_amid_attach(self, server: RuntimeServer, after: After) -> None:
        self.site.armed.touch()
        with plugin(self.site, 3, "in pod") as first:
            runtime = await server.connection()
            await runtime.handshake()
            with suppress(ConnectionError):
                await self._call(runtime, PodEventKind.RUN, self.sandbox())
            first.ended()
        self.site.died.unlink()
        if after is After.GONE and self.environment.hardware:
            self.destroy()

    async def _cut_short(self, server: RuntimeServer, process: PluginProcess, after: After) -> bool:
        """Do the act; return whether the plugin died of it."""
        if self.shape.act in (Act.DESTROYED, Act.RECOVER):
            self.site.armed.touch()
        listed = self.pods if after is After.LISTED and self.shape.act is Act.RECOVER else ()
        try:
            async with asyncio.timeout(2 * SETTLED_S):
                runtime = await server.connection()
                await runtime.handshake(listed)
                await self._act(
                    runtime, process, self.problem_in_pod if listed else self.problem_on_host
                )
        except ConnectionError:
            pass
        except TimeoutError:
            raise Failed(Loss.HUNG, "the plugin does not answer") from None
        self.site.armed.unlink(missing_ok=True)
        return self.site.died.exists()

    async def _act(
        self, runtime: RuntimeConnection, process: PluginProcess, problem: Callable[[], str]
    ) -> None:
        """Do the act, or see it through until there is no problem."""
        act = self.shape.act
        if act in (Act.DESTROYED, Act.RECOVER):
            await self.until(lambda: problem() if process.alive else "", "the plugin was started")
            return
        pod = self.sandbox()
        if act not in (Act.ATTACH, Act.UNDO):
            await self._call(runtime, PodEventKind.RUN, pod)
        if self.shape.spoilt:
            for nic in self.nics:
                host_setup.change_in_pod(self.netns, nic.name)
        if self.shape.taken:
            self._take_names()
        if act is Act.SUPERSEDE:
            pod = self.sandbox()
        self.site.armed.touch()
        if act is Act.LEFT:
            self._take_out()
            await self.until(lambda: self.problem_in_pod() if process.alive else "", "a NIC left")
            return
        if act is Act.UNLINKED:
            namespaces.delete(self.netns)
        if act in (Act.DETACH, Act.UNLINKED):
            await self._call(runtime, PodEventKind.STOP, pod)
            await self._call(runtime, PodEventKind.REMOVE, pod)
        else:
            await self._call(runtime, PodEventKind.RUN, pod)

    def _take_names(self) -> None:
        for nic in self.nics:
            host_setup.occupy_name(nic.name)
            self.taken.append(nic.name)

    def give_names_back(self) -> None:
        """Delete the links that took the NICs' names."""
        while self.taken:
            host_setup.free_name(self.taken.pop())

    async def _restored(self, what: str) -> None:
        """Wait until all is restored by names and records; first without the names of others.

        The state of the host is compared once, after the end of the plugin.
        """
        if self.taken:
            await self.until(self.problem_waiting, f"{what}, names taken")
            self.give_names_back()
        await self.until(lambda: self.problem_by_names() or self.problem_in_records(), what)

    def _take_out(self) -> None:
        """Take the NICs out of the pod. Under another name than its own nobody knows a virtual
        one, and udev gives hardware another alternative name.
        """
        for claim in self.claims:
            for device in claim.devices:
                own = device.device.key.name
                host_setup.move_to_host(self.netns, device.config.interface.name or own, own)

    async def _take_over(self, server: RuntimeServer, after: After) -> None:
        listed = after is After.LISTED and observed_state.exists(self.netns)
        if not listed and self.environment.hardware:
            self.destroy()
        with plugin(self.site) as clean:
            runtime = await server.connection()
            await runtime.handshake(self.pods[-1:] if listed else ())
            if listed:
                if self.shape.act is Act.UNDO:
                    await self.until(self.problem_on_host, "the refused pod lives")
                else:
                    await self.until(self.problem_in_pod, "the pod lives")
                    await self._start_container(runtime)
                await self._end(runtime, self.pods[-1])
            else:
                await self._restored("the pod is gone")
            await self._namespaces_released(clean)
            if clean.stop() != 0:
                raise Failed(Loss.HUNG, "the plugin ended badly")
        await self.until(self.problem_on_host, "after the plugin's end")

    async def _start_container(self, runtime: RuntimeConnection) -> None:
        ids = [cdi for claim in self.claims for _, cdi in cdi_ids(claim)]
        container = nri_pb2.Container(id="c", pod_sandbox_id=self.netns, name="main")
        container.annotations["cdi.k8s.io/test"] = ",".join(ids)
        call = runtime.runtime.create_container(self.pods[-1], container, LONG_NANO)
        answer = await runtime.answer(call)
        if answer.status is not None:
            raise Failed(Loss.MISCONFIGURED, f"container refused: {answer.status.message}")

    async def _end(self, runtime: RuntimeConnection, pod: nri_pb2.PodSandbox) -> None:
        for kind in (PodEventKind.STOP, PodEventKind.REMOVE):
            await self._call(runtime, kind, pod)
        await self._restored("the pod was stopped")

    async def _namespaces_released(self, clean: PluginProcess) -> None:
        own = observed_state.own_namespace()
        await self.until(
            lambda: str(sorted(observed_state.namespaces_of(clean.pid) - {own}) or ""),
            "namespaces held",
        )

    async def _call(
        self, runtime: RuntimeConnection, kind: PodEventKind, pod: nri_pb2.PodSandbox
    ) -> str:
        """Tell the plugin; return why it refuses, "" if it does not."""
        answer = await runtime.answer(runtime.runtime.pod_event(kind, pod, LONG_NANO))
        return answer.status.message or "refused" if answer.status is not None else ""
