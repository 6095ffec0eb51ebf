"""Token buckets of links (net/sched/sch_tbf.c). Numbers are those of linux/pkt_sched.h."""

import struct
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import attribute, attributes, fixed, text
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.plan.settings.rate import NOT_LIMITED

RTM_NEWQDISC: Final = 36
RTM_GETQDISC: Final = 38
NLM_F_REPLACE_CREATE: Final = 0x500
TC_H_ROOT: Final = 0xFFFFFFFF
TCA_KIND, TCA_OPTIONS = 1, 2
TCA_TBF_PARMS, TCA_TBF_RATE64, TCA_TBF_BURST = 1, 4, 6
TC_LINKLAYER_ETHERNET: Final = 1  # else the kernel requires a table of transmission times
MAX_U32: Final = 2**32 - 1

# A bucket holds the traffic of 4 ms, a tick at HZ=250, and at least a GSO packet of 64 KiB, which
# the kernel would segment otherwise. The queue holds 50 ms.
BURSTS_PER_S: Final = 250
MIN_BURST: Final = 128 * 1024
QUEUES_PER_S: Final = 20

_HEADER: Final = struct.Struct("=BBHiIII")  # struct tcmsg
_SPEC: Final = struct.Struct("=BBHhHI")  # struct tc_ratespec
_PARAMETERS: Final = struct.Struct("=12s12sIII")  # struct tc_tbf_qopt
_U64: Final = struct.Struct("=Q")
_U32: Final = struct.Struct("=I")


def limit(netlink: RtnetlinkSocket, what: str, index: int, rate: int) -> None:
    """Replace the link's root queueing discipline by a token bucket.

    Args:
        netlink: socket of its namespace.
        what: name of the operation in errors.
        index: its ifindex.
        rate: bit/s.

    Raises:
        KernelError: ENOENT: the kernel has no token buckets; or the kernel refused.
    """
    per_s = rate // 8
    burst = min(max(per_s // BURSTS_PER_S, MIN_BURST), MAX_U32)
    queue = min(burst + per_s // QUEUES_PER_S, MAX_U32)
    spec = _SPEC.pack(0, TC_LINKLAYER_ETHERNET, 0, 0, 0, min(per_s, MAX_U32))
    parameters = _PARAMETERS.pack(spec, bytes(_SPEC.size), queue, 0, 0)
    options = (
        attribute(TCA_TBF_PARMS, parameters)
        + attribute(TCA_TBF_BURST, _U32.pack(burst))
        + attribute(TCA_TBF_RATE64, _U64.pack(per_s))
    )
    body = (
        _HEADER.pack(0, 0, 0, index, 0, TC_H_ROOT, 0)
        + attribute(TCA_KIND, b"tbf\0")
        + attribute(TCA_OPTIONS, options)
    )
    netlink.do(what, RTM_NEWQDISC, NLM_F_REPLACE_CREATE, body)


def rate_of(netlink: RtnetlinkSocket, where: str, index: int) -> int:
    """Return the rate of the link's token bucket in bit/s, 0 without one.

    Raises:
        KernelError: the dump failed.
    """
    try:
        bodies = netlink.dump(f"dump queueing disciplines in {where}", RTM_GETQDISC, _QUERY)
    except KernelError as error:
        if error.code in NOT_LIMITED:  # a kernel without traffic control
            return 0
        raise
    return next((rate for body in bodies if (rate := _rate(body, index))), 0)


_QUERY: Final = bytes(_HEADER.size)


def _rate(body: bytes, index: int) -> int:
    _, _, _, ifindex, _, parent, _ = fixed(_HEADER, body)
    if ifindex != index or parent != TC_H_ROOT:
        return 0
    found = attributes(body, _HEADER.size)
    if text(found.get(TCA_KIND, b"")) != "tbf":
        return 0
    options = attributes(found.get(TCA_OPTIONS, b""))
    if TCA_TBF_RATE64 in options:
        (per_s,) = fixed(_U64, options[TCA_TBF_RATE64])
    else:
        *_, per_s = fixed(_SPEC, options.get(TCA_TBF_PARMS, b""))
    return per_s * 8
