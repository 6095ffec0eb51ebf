"""Proof in the box: matrix, rdma, rdma-shared, hostile, hostile-wires [WORD...], runtime, soak,
rdma-soak.

Rules:
1. `matrix.listed` and `matrix.gone` are the two halves of a matrix, by the sandbox's fate.

See hack/prove.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path

from tests.box.nics import (
    FIRST_RULE,
    IGB,
    SWITCH,
    Nic,
    dress_functions,
    ip,
    make_functions,
    make_wires,
)
from tests.box.waiting import wait_until
from tests.prove import host_setup, hostile, rdma_functions, runtime, soak
from tests.prove.environment import After, HostEnvironment, Loss
from tests.prove.matrix import rows
from tests.prove.shapes import HARDWARE_ONLY, SHAPES, Shape
from tests.prove.table import Tally, is_listed, keep, print_now

MOST = 3  # NICs that a shape asks for
RDMA_CYCLES = 500


def wires() -> tuple[Nic, ...]:
    """Make the wires, for the first time or anew."""
    if Path("/run/netns", SWITCH).exists():
        ip("netns", "del", SWITCH)
        wait_until("the wires to be gone", lambda: ": nic" not in ip("-o", "link"))
        forget_rules()
    return host_setup.configure(make_wires(MOST))


def functions() -> tuple[Nic, ...]:
    """Make the virtual functions, for the first time or anew."""
    for nic in sorted(IGB.glob("0000:*")):
        (nic / "sriov_numvfs").write_text("0")
    forget_rules()
    return host_setup.configure(dress_functions(make_functions()[:MOST]))


def fabrics() -> tuple[Nic, ...]:
    """Make the virtual functions, each with an RDMA device."""
    return rdma_functions.add_devices(functions())


def forget_rules() -> None:
    """Delete the policy rules of NICs that are gone."""
    for number in range(MOST):
        if ip("rule", "show", "priority", str(FIRST_RULE + number)):
            ip("rule", "del", "priority", str(FIRST_RULE + number))


def skip_duplicate_detection() -> None:
    """Let link-local addresses be usable at once: a row would wait a second or two for them."""
    for conf in ("all", "default"):
        Path(f"/proc/sys/net/ipv6/conf/{conf}/accept_dad").write_text("0")


def run_shape(environment: HostEnvironment, shape: Shape, after: After) -> bool:
    """Play the rows of one shape; return whether all went well."""
    what = f"{environment.tier} {shape.name}, {after}"
    if is_listed(what):
        return True
    begin, rows_done = time.monotonic(), 0
    losses: Counter[Loss] = Counter()
    for row in rows(environment, shape, after):
        rows_done += 1
        if row.loss is not None:
            losses[row.loss] += 1
            print_now(f"{row.shape}, {after}, {row.number} {row.event!r}: {row.loss}: {row.detail}")
    keep(
        Tally(
            what,
            rows=rows_done,
            lost=losses[Loss.LOST],
            misconfigured=losses[Loss.MISCONFIGURED],
            unguarded=losses[Loss.UNGUARDED],
            other=losses[Loss.HUNG],
            seconds=time.monotonic() - begin,
        )
    )
    return not losses


def matrix(environment: HostEnvironment, half: str, names: list[str]) -> bool:
    """Play every shape that fits and has one of the words in its name, or all.

    half is "listed", "gone", or "" for both.
    """
    chosen = [
        shape
        for shape in SHAPES
        if environment.fits(shape) and (not names or any(word in shape.name for word in names))
    ]
    went_well = [
        run_shape(environment, shape, after)
        for shape in chosen
        for after in After
        if half in {"", after}
        if after is After.GONE or shape.act not in HARDWARE_ONLY  # no sandbox is left to list
    ]
    return all(went_well)


def main(what: str, *names: str) -> int:
    """Prove it; 1 if it does not hold."""
    if what == "runtime":
        return 0 if runtime.run() else 1
    tier = os.environ["BOX_TIER"]
    skip_duplicate_detection()
    kind = what.partition(".")[0]
    if kind in {"rdma", "rdma-soak"}:
        with rdma_functions.movable("exclusive"):
            return prove(what, HostEnvironment("vm rdma", fabrics(), fabrics), list(names))
    if kind == "rdma-shared":
        with rdma_functions.movable("shared"):
            return prove(what, HostEnvironment("vm rdma shared", fabrics(), fabrics), list(names))
    if what == "hostile-wires":
        return prove("hostile", HostEnvironment("vm wires", wires(), wires), list(names))
    rebuild = functions if tier == "vm" else wires
    return prove(what, HostEnvironment(tier, rebuild(), rebuild), list(names))


def prove(what: str, environment: HostEnvironment, names: list[str]) -> int:
    """Run the proof in the environment; 1 if it does not hold."""
    match what:
        case "soak":
            passed = soak.run(environment)
        case "rdma-soak":
            passed = soak.run(environment, RDMA_CYCLES)
        case "hostile":
            passed = hostile.run(environment, names)
        case _:
            passed = matrix(environment, what.partition(".")[2], names)
    return 0 if passed else 1


sys.exit(main(*sys.argv[1:]))
