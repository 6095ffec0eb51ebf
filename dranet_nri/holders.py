"""What a pod may not have, for somebody else has it."""

from dranet_nri.errors import HeldError
from dranet_nri.model import Allocation, Attachment, Phase, Pod
from dranet_nri.targets import moved


def refuse_held(pod: Pod, claims: tuple[Allocation, ...], records: tuple[Attachment, ...]) -> None:
    """Refuse devices and claims that another claim or pod still holds.

    Raises:
        HeldError: one of them is held.
    """
    wanted = {each.device.name: (claim, each) for claim in claims for each in moved(claim)}
    uids = {each.claim.uid for each in claims}
    for holder in [each for each in records if each.holds_devices]:
        if holder.claim.uid in uids and holder.pod.uid != pod.uid:
            raise HeldError(_held(f"claim {holder.claim}", holder))
        for device in holder.devices:
            claim, asked = wanted.get(device.device.name, (None, None))
            if claim is None or asked is None or holder.claim.uid == claim.claim.uid:
                continue
            if not device.home and not (asked.share_id and device.share_id):
                subject = f"device {device.device.name} of claim {claim.claim}"
                raise HeldError(_held(subject, holder))


def _held(subject: str, holder: Attachment) -> str:
    text = f"{subject} is held by pod {holder.pod} (claim {holder.claim})"
    if holder.phase is not Phase.DETACHING:
        return f"{text}; delete that pod, or allocate the claim anew"
    reason = f" ({holder.failure.message})" if holder.failure else ""
    return f"{text}, which is gone; it is still on its way home{reason}, this is retried"
