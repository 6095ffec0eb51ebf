"""Real plugin on a kernel that is slow, hangs or refuses as a control file says.

`python3 -m tests.box.faulty run …` is `dranet-nri run …`. Each file in FAULTS is a fault; see
tests.box.faults, which writes them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EBUSY
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from dranet_nri import cli
from dranet_nri.attach.controller import AttachController
from dranet_nri.attach.reconciler import Reconciler
from dranet_nri.daemon import process
from dranet_nri.errors import KernelError
from dranet_nri.hooks.handler import HookHandler
from dranet_nri.kernel.namespace import Namespace
from dranet_nri.kernel.session import NetlinkSession
from dranet_nri.model import Ns, Pod
from dranet_nri.nri.stub import Answer

FAULTS: Final = Path("/run/faults")
HELD: Final = Path("/run/held")
HANG_TIMEOUT_S: Final = (
    0.5  # before a thread is said to be stuck, and before a repair is left alone
)

_numbers = count()


def block_on_fault(step: str) -> None:
    """Block while a fault of this step exists.

    Raises:
        KernelError: the fault refuses the step.
    """
    for path in sorted(FAULTS.glob("[0-9]*")):
        with suppress(FileNotFoundError):
            fault_spec = json.loads(path.read_text())
            if all(word in step for word in fault_spec["words"]):
                with _marked(HELD / f"{path.name}.{next(_numbers)}", step):
                    while path.exists():
                        time.sleep(0.01)
                if fault_spec["refuse"]:
                    raise KernelError(step, EBUSY, "the fault's")


@contextmanager
def _marked(mark: Path, step: str) -> Iterator[None]:
    mark.write_text(step)
    yield
    mark.unlink()


def install_faults() -> None:
    """Let every step of this process meet the faults, and shorten its patience."""
    plain = NetlinkSession._namespace
    stop = HookHandler.stop_pod_sandbox

    def space(session: NetlinkSession, ns: Ns, what: str) -> Namespace:
        """Meet the faults where an operation or a look at a device enters the kernel."""
        block_on_fault(what)
        return plain(session, ns, what)

    async def stopped(plugin: HookHandler, pod: Pod, answer: Answer) -> None:
        """Meet the faults before the hook."""
        await asyncio.to_thread(block_on_fault, f"hook StopPodSandbox {pod}")
        await stop(plugin, pod, answer)

    NetlinkSession._namespace = space  # type: ignore[method-assign, assignment]
    HookHandler.stop_pod_sandbox = stopped  # type: ignore[method-assign, assignment]
    process.AttachController = partial(AttachController, hang_timeout_s=HANG_TIMEOUT_S)  # type: ignore[assignment, attr-defined]
    process.Reconciler = partial(Reconciler, hang_wait_s=HANG_TIMEOUT_S)  # type: ignore[assignment, attr-defined]


if __name__ == "__main__":
    install_faults()
    sys.exit(cli.main())
