"""RDMA device facts that need an open verbs context, read through pyverbs where it is installed.

Rules:
1. A context is a user of the device: it blocks the driver's unload and an RDMA move. So each is
   opened in a child process, which closes it at its end. For `doctor` only.
2. pyverbs is optional. It is a package of the distribution (Debian: python3-pyverbs), not of PyPI,
   and works with the distribution's Python only.
3. The child is this module; its only input is its argument.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

TIMEOUT_S: Final = 10.0  # opening takes milliseconds; a driver that is being reset takes seconds

_ATOMIC: Final = {0: "none", 1: "device", 2: "global"}  # enum ibv_atomic_cap, infiniband/verbs.h
_WIDTHS: Final = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}  # lanes, IBA PortInfo.LinkWidthActive
_LANE_MBPS: Final = {  # IBA PortInfo.LinkSpeedActive and its extensions, by bit
    1: 2_500,
    2: 5_000,
    4: 10_000,
    8: 10_000,
    16: 14_000,
    32: 25_000,
    64: 50_000,
    128: 100_000,
    256: 200_000,
}
_ODP_SUPPORT: Final = 1  # IBV_ODP_SUPPORT


@dataclass(frozen=True, slots=True)
class VerbsPort:
    """Facts of a port from a verbs context.

    Attributes:
        active_mtu, max_mtu: payload bytes of a packet, 0 if unknown.
        lanes: number of used lanes, 0 if unknown.
        lane_mbps: speed of each lane in Mbit/s, 0 if unknown.
        gids, pkeys: sizes of the tables.
    """

    number: int
    active_mtu: int
    max_mtu: int
    lanes: int
    lane_mbps: int
    gids: int
    pkeys: int


@dataclass(frozen=True, slots=True)
class VerbsDevice:
    """Facts of a device from a verbs context.

    Attributes:
        max_qp, max_cq, max_mr: limits of each kind of object.
        max_qp_wr: work requests of a queue.
        max_mr_size: bytes of one memory region.
        atomic: "none", "device" (among the device's own users), "global", "" if unknown.
        on_demand_paging: None if unknown.
    """

    name: str
    max_qp: int
    max_qp_wr: int
    max_cq: int
    max_mr: int
    max_mr_size: int
    atomic: str
    on_demand_paging: bool | None
    ports: tuple[VerbsPort, ...]


@dataclass(frozen=True, slots=True)
class VerbsFailure:
    """Reason why a device could not be opened or queried."""

    name: str
    reason: str


def is_installed() -> bool:
    """Whether this interpreter has pyverbs; does not import it."""
    return importlib.util.find_spec("pyverbs") is not None


def probe(name: str, timeout_s: float = TIMEOUT_S) -> VerbsDevice | VerbsFailure:
    """Open the device briefly in a child process and return its facts.

    Args:
        name: name of the RDMA device ("mlx5_0").
        timeout_s: seconds after which the child is killed; it is abandoned if it hangs.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    child = subprocess.Popen(  # noqa: S603 - our own module, the name is an argument of it
        [sys.executable, "-m", __name__, name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        errors="replace",
    )
    try:
        output, complaint = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _abandon(child)
        return VerbsFailure(name, f"no answer within {timeout_s:g} s: its driver may hang")
    if child.returncode:
        lines = complaint.strip().splitlines() or [f"the probe ended with {child.returncode}"]
        return VerbsFailure(name, lines[-1])
    attrs = json.loads(output)
    return VerbsDevice(**attrs | {"ports": tuple(VerbsPort(**port) for port in attrs["ports"])})


def _abandon(child: subprocess.Popen[str]) -> None:
    """Kill the child without waiting: it may hang in the kernel."""
    child.kill()
    with suppress(subprocess.TimeoutExpired):
        child.wait(1)
    for pipe in (child.stdout, child.stderr):
        if pipe:
            pipe.close()


def lanes(width: int) -> int:
    """Return the number of lanes of an active width, 0 if unknown."""
    return _WIDTHS.get(width, 0)


def lane_mbps(speed: int) -> int:
    """Return the Mbit/s per lane of an active speed, 0 if unknown."""
    return _LANE_MBPS.get(speed, 0)


def mtu_bytes(mtu: int) -> int:
    """Return the bytes of an enum ibv_mtu, 0 if unknown."""
    return 128 << mtu if 1 <= mtu <= 5 else 0


# --------------------------------------------------------------------------- in the child


def _ask(name: str) -> VerbsDevice:
    from pyverbs.device import Context

    context = Context(name=name)
    try:
        attrs = context.query_device()
        return VerbsDevice(
            name=name,
            max_qp=int(attrs.max_qp),
            max_qp_wr=int(attrs.max_qp_wr),
            max_cq=int(attrs.max_cq),
            max_mr=int(attrs.max_mr),
            max_mr_size=int(attrs.max_mr_size),
            atomic=_ATOMIC.get(int(attrs.atomic_caps), ""),
            on_demand_paging=_on_demand_paging(context),
            ports=tuple(_ports(context, int(attrs.phys_port_cnt))),
        )
    finally:
        context.close()


def _on_demand_paging(context: object) -> bool | None:
    from pyverbs.pyverbs_error import PyverbsError

    try:
        caps = context.query_device_ex().odp_caps  # type: ignore[attr-defined]
    except PyverbsError:
        return None
    return bool(int(caps.general_caps) & _ODP_SUPPORT)


def _ports(context: object, count: int) -> Iterator[VerbsPort]:
    for number in range(1, count + 1):
        attrs = context.query_port(number)  # type: ignore[attr-defined]
        speed = int(getattr(attrs, "active_speed_ex", 0)) or int(attrs.active_speed)
        yield VerbsPort(
            number=number,
            active_mtu=mtu_bytes(int(attrs.active_mtu)),
            max_mtu=mtu_bytes(int(attrs.max_mtu)),
            lanes=lanes(int(attrs.active_width)),
            lane_mbps=lane_mbps(speed),
            gids=int(attrs.gid_tbl_len),
            pkeys=int(attrs.pkey_tbl_len),
        )


def _main(name: str) -> int:
    """Print the device's facts, or the reason why there are none."""
    try:
        from pyverbs.pyverbs_error import PyverbsError
    except ImportError as error:
        sys.stderr.write(f"pyverbs cannot be used: {error}\n")
        return 1
    try:
        sys.stdout.write(json.dumps(asdict(_ask(name))))
    except (PyverbsError, OSError) as error:
        sys.stderr.write(f"{' '.join(str(error).split())}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
