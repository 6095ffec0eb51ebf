"""Container runtime of a test node, containerd or CRI-O, from start to SIGKILL."""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.box.waiting import wait_until

CNI_CONFIG: Final = Path("/etc/cni/net.d/10-box.conflist")
NRI_SOCKET: Final = Path("/var/run/nri/nri.sock")
CAP_SYS_RESOURCE: Final = 24  # linux/capability.h

# Pods get an address of a bridge: the ordinary network that a claimed NIC comes on top of.
CNI_CONFLIST: Final = """\
{"cniVersion": "1.0.0", "name": "box", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": {"type": "host-local",
   "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "loopback"}]}
"""

REQUEST_TIMEOUT_S: Final = 20 if os.environ.get("BOX_TIER") == "vm" else 10


@dataclass(frozen=True, slots=True)
class Options:
    """What tests vary about a runtime.

    Attributes:
        request_timeout_s: How long an NRI plugin may take for one event. 2 is the default of every
            runtime; a machine that does other things too, and an emulated one, get as much as an
            operator of slow hardware would set.
        registration_timeout_s: How long a connected plugin may take to register.
        tcp: `ADDRESS:PORT` where containerd listens besides its socket.
    """

    request_timeout_s: int = REQUEST_TIMEOUT_S
    registration_timeout_s: int = 5
    tcp: str = ""


class Runtime(ABC):
    """One runtime. Made stopped; pods outlive its process as on a real node.

    Attributes:
        program: its name, and how it is called.
        socket: where it answers the kubelet.
        log_file: its log.
        options: those it runs with.
    """

    program: str
    socket: Path
    log_file: Path

    def __init__(self, options: Options = Options()) -> None:
        self.options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether it was started, and not stopped since."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """Return the process id; it must be running."""
        assert self._process is not None, f"{self.program} is not running"
        return self._process.pid

    def start(self, options: Options | None = None) -> None:
        """Start it and wait until it answers; options, if given, replace the present ones."""
        assert self._process is None, f"{self.program} is running already"
        self.options = options or self.options
        CNI_CONFIG.parent.mkdir(parents=True, exist_ok=True)
        CNI_CONFIG.write_text(CNI_CONFLIST)
        self._configure()
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen([self.program], stdout=log, stderr=log)
        wait_until(f"{self.program} to answer", self._answers)
        self._import_image()

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL, so that it cleans nothing up."""
        self._end(signal.SIGKILL)

    def restart(self, options: Options | None = None) -> None:
        """Stop and start it; the pods go on."""
        self.stop()
        self.start(options)

    def ensure_running(self, options: Options) -> None:
        """Run it with the options, also after a test that failed half way."""
        if self._process is None:
            self.start(options)
        elif self._process.poll() is not None or not self._serves():
            self.kill()
            self.start(options)
        elif self.options != options:
            self.restart(options)

    def log(self) -> str:
        """Return everything it has logged since the box was made, over all its starts."""
        log = self.log_file
        return log.read_text(errors="replace") if log.exists() else ""

    @abstractmethod
    def _configure(self) -> None:
        """Write its configuration, as the options say."""

    @abstractmethod
    def _serves(self) -> bool:
        """Tell whether it answers, and its plugins may connect."""

    @abstractmethod
    def _import_image(self) -> None:
        """Give it the image of the tests, unless it has that."""

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None, f"{self.program} is not running"
        self._process.send_signal(number)
        self._process.wait(timeout=90)
        self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        code = self._process.poll()
        assert code is None, f"{self.program} exited with {code}:\n{self.log()[-4000:]}"
        return self._serves()


def may_raise_limits() -> bool:
    """Tell whether this process may lower an oom_score_adj, as runc does for sandboxes."""
    status = Path("/proc/self/status").read_text()
    capabilities = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(capabilities.split()[1], 16) >> CAP_SYS_RESOURCE & 1)
