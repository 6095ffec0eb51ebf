"""Extension of DHCP leases: by their server from T1, by any server from T2 (RFC 2131, 4.4.5).

Rules:
1. A lease that expired or was withdrawn is lost. Its address is deleted, the gate closes, and the
   record has the reason. The reconcile loop attaches the claim again, with another lease.
2. Leases of a claim are not extended while it is attached or detached.
3. Routes and MTU of the first answer do not change, because containers use them.
4. A NIC that the pod renamed is found as in a verification. One that is missing is skipped, because
   the reconcile loop attaches it again.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from dranet_nri.attach.controller import AttachController
from dranet_nri.attach.execution.addressing import AddressWait
from dranet_nri.attach.leases import LeaseExchange, exchange_on, run_exchanges
from dranet_nri.attach.observation import observe
from dranet_nri.component.clock import SystemClock
from dranet_nri.component.replace import replace
from dranet_nri.component.threads import set_step
from dranet_nri.dhcp import Granted, Lost
from dranet_nri.model import NOT_READY, AttachedDevice, Attachment, Failure, Lease, Ns, Phase
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.lease_ops import DropAddress, add_lease
from dranet_nri.plan.retry import message_of

RENEW_S: Final = 4.0  # timeout of one exchange


@dataclass(frozen=True, slots=True)
class LeaseRenewer:
    """Extends the leases of claims.

    Attributes:
        attacher: attaches and detaches the same claims.
        is_live: whether the sandbox of a record is live; called from threads.
    """

    attacher: AttachController
    is_live: Callable[[Attachment], bool]

    async def renew(self, claim_uid: str) -> Attachment | None:
        """Extend the leases of a claim that are due.

        Returns:
            The record, with unchanged leases if no server answered; None if the claim is not
            attached.

        Raises:
            KernelError: the kernel refused.
            OutdatedError: the sandbox ended meanwhile.
            OSError: the result could not be recorded.
        """
        attacher, listed = self.attacher, self.attacher.attachments.get(claim_uid)
        if listed is None:
            return None
        async with attacher.locks.of(device.device.name for device in listed.devices):
            record = attacher.attachments.get(claim_uid)
            if record is None or record.phase is not Phase.ATTACHED:
                return None
            if not attacher.kernel.hold(record.netns):
                return None
            before = record
            now = await attacher.watchdog.run(lambda: self._renewed(before), (before,))
            if now.phase is Phase.ATTACHED:
                attacher.attachments.put(now)
            else:
                self._record_loss(now)
            return now

    def _record_loss(self, record: Attachment) -> None:
        """Close the gate, record the loss, and request a reconcile."""
        attacher, uid = self.attacher, record.claim.uid
        close_error = attacher.gate.try_close(uid)
        attacher.metrics.work.lost.add()
        reason = record.failure.message if record.failure else ""
        owner = {"pod": str(record.pod), "claim": str(record.claim)}
        attacher.log.error("lease lost", **owner, reason=reason)
        attacher.attachments.put(record)
        attacher.watchdog.record_close_error(uid, close_error)
        attacher.wake()

    def _renewed(self, attachment: Attachment) -> Attachment:
        clock = self.attacher.clock
        with closing(self.attacher.kernel.session(attachment.netns)) as session:
            return renewed(session, attachment, clock, lambda: self.is_live(attachment))


def renewed(
    session: Session, attachment: Attachment, clock: SystemClock, is_live: Callable[[], bool]
) -> Attachment:
    """Run an exchange for each lease that is due, and return the resulting record.

    Its phase is INTENT if a lease is lost.

    Args:
        session: session of the pod.
        attachment: a record of phase ATTACHED.
        clock: clock of the leases.
        is_live: whether the sandbox is live.

    Raises:
        KernelError: the kernel refused.
        OutdatedError: the sandbox ended meanwhile.
    """
    set_step("extend leases")
    now_s = clock.boot()
    exchanges: dict[tuple[str, str], LeaseExchange] = {}
    try:
        for device in attachment.devices:
            if device.lease and device.lease.renew_at <= now_s:
                pod = observe(session, device, link_only=True).pod
                if pod is not None:
                    exchanges[device.identity] = exchange_on(session, pod.link, device.lease)
        run_exchanges(exchanges.values(), AddressWait(RENEW_S, clock.sleep, is_live), now_s)
    finally:
        for exchange in exchanges.values():
            exchange.port.close()
    devices = tuple(
        _with_result(session, device, exchanges.get(device.identity), now_s)
        for device in attachment.devices
    )
    record = replace(attachment, devices=devices)
    lost = [
        f"device {device.device.name}: {result.why}; check the server; the device is"
        " attached again when a server grants an address"
        for device in attachment.devices
        if (ended := exchanges.get(device.identity)) and isinstance(result := ended.result, Lost)
    ]
    if not lost:
        return record
    failure = Failure(NOT_READY, message_of("; ".join(lost)), clock.wall())
    return replace(record, phase=Phase.INTENT, failure=failure)


def _with_result(
    session: Session, device: AttachedDevice, exchange: LeaseExchange | None, now_s: int
) -> AttachedDevice:
    """Apply the result of an exchange to the link, and return the device with it."""
    match exchange, device.lease:
        case LeaseExchange(name=name, result=Granted(lease)), Lease():
            session.apply(add_lease(name, lease, now_s))
            return replace(device, lease=lease)
        case LeaseExchange(name=name, result=Lost()), Lease() as lease:
            session.apply(DropAddress(Ns.POD, name, lease.address))
            others = tuple(cidr for cidr in device.addresses if cidr != lease.address)
            return replace(device, lease=None, addresses=others)
        case _:
            return device
