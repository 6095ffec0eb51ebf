"""The story of hack/demo, run as its first row on a fresh machine."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.box.nics import FIRST_RULE, IGB, ip, remove_functions
from tests.box.plugin import ALLOCATIONS


@pytest.mark.timeout(600)
def test_demo_succeeds_and_leaves_nothing_behind() -> None:
    command = (sys.executable, "-um", "hack.box.demo")
    demo = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        printed, _ = demo.communicate()
        assert demo.returncode == 0, printed
        assert "links, addresses, routes, rules and neighbours are the same as before" in printed
        assert printed.rstrip().endswith("] Done"), printed
        with pytest.raises(ProcessLookupError):
            os.killpg(demo.pid, 0)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(demo.pid, signal.SIGKILL)
        remove_functions()  # the demo leaves them to the end of its machine
    assert list(ALLOCATIONS.glob("*.json")) == []
    assert list(IGB.glob("0000:*/virtfn*")) == []
    assert f"{FIRST_RULE}:" not in ip("rule")
