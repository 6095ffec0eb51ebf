"""containerd on the node in a box: its configuration, and its life from start to SIGKILL."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.box import image
from tests.box.waiting import wait_until

CONFIG: Final = Path("/etc/containerd/config.toml")
CNI_CONFIG: Final = Path("/etc/cni/net.d/10-box.conflist")
SOCKET: Final = Path("/run/containerd/containerd.sock")
NRI_SOCKET: Final = Path("/var/run/nri/nri.sock")
LOG: Final = Path("/tmp/containerd.log")
CAP_SYS_RESOURCE: Final = 24  # linux/capability.h

# Pods get an address of a bridge: the ordinary network that a claimed NIC comes on top of.
CNI_CONFLIST: Final = """\
{"cniVersion": "1.0.0", "name": "box", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": {"type": "host-local",
   "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "loopback"}]}
"""

CONFIG_1_7: Final = """\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
  restrict_oom_score_adj = {restrict_oom}
"""

CONFIG_2: Final = """\
version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{image}"
[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
  restrict_oom_score_adj = {restrict_oom}
"""

CONFIG_NRI: Final = """\
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  plugin_registration_timeout = "{registration_timeout_s}s"
  plugin_request_timeout = "{request_timeout_s}s"
"""

# For containerd 2.
CONFIG_TCP: Final = """\
[plugins."io.containerd.grpc.v1.cri"]
  disable_tcp_service = false
[grpc]
  tcp_address = "{tcp}"
"""

REQUEST_TIMEOUT_S: Final = 20 if os.environ.get("BOX_TIER") == "vm" else 2


@dataclass(frozen=True, slots=True)
class Options:
    """What tests vary about containerd.

    Attributes:
        request_timeout_s: How long an NRI plugin may take for one event. 2 is containerd's
            default; emulated hardware gets as much as an operator of slow hardware would set.
        registration_timeout_s: How long a connected plugin may take to register.
        tcp: `ADDRESS:PORT` where it listens besides its socket.
    """

    request_timeout_s: int = REQUEST_TIMEOUT_S
    registration_timeout_s: int = 5
    tcp: str = ""


def version() -> tuple[int, int]:
    """Return major and minor version of the installed containerd."""
    text = subprocess.run(
        ["containerd", "--version"], check=True, capture_output=True, text=True
    ).stdout
    match = re.search(r"\b(\d+)\.(\d+)\.\d+", text)
    assert match is not None, text
    return int(match[1]), int(match[2])


class Containerd:
    """One containerd. Made stopped; pods outlive its process as on a real node."""

    def __init__(self, options: Options = Options()) -> None:
        self.options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the process id; containerd must be running."""
        assert self._process is not None, "containerd is not running"
        return self._process.pid

    def start(self, options: Options | None = None) -> None:
        """Start it and wait until it answers; options, if given, replace the present ones."""
        assert self._process is None, "containerd is running already"
        self.options = options or self.options
        self._write_configuration()
        with LOG.open("ab") as log:
            self._process = subprocess.Popen(["containerd"], stdout=log, stderr=log)
        wait_until("containerd to answer", self._answers, deadline_s=90)
        self._import_image()

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without warning: it can tidy nothing up."""
        self._end(signal.SIGKILL)

    def restart(self, options: Options | None = None) -> None:
        """Stop and start it; the pods go on."""
        self.stop()
        self.start(options)

    def heal(self) -> None:
        """Have it run with its default options, whatever a test that failed half way left."""
        if self._process is None:
            self.start(Options())
        elif self._process.poll() is not None or not self._serves():
            self.kill()
            self.start(Options())
        elif self.options != Options():
            self.restart(Options())

    def log(self) -> str:
        """Return everything it has logged since the box was made, over all its starts."""
        return LOG.read_text(errors="replace") if LOG.exists() else ""

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None, "containerd is not running"
        self._process.send_signal(number)
        self._process.wait(timeout=30)
        self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        code = self._process.poll()
        assert code is None, f"containerd exited with {code}:\n{self.log()[-4000:]}"
        return self._serves()

    def _serves(self) -> bool:
        # The CRI plugin comes up last: answering at all is not enough.
        asked = ["ctr", "--timeout", "60s", "plugins", "ls", "id==cri"]
        done = subprocess.run(asked, check=False, capture_output=True)
        return done.returncode == 0 and NRI_SOCKET.exists()

    def _write_configuration(self) -> None:
        template = CONFIG_1_7 if version() < (2, 0) else CONFIG_2
        general = template.format(
            image=image.NAME, restrict_oom=str(not _may_raise_limits()).lower()
        )
        nri = CONFIG_NRI.format(
            registration_timeout_s=self.options.registration_timeout_s,
            request_timeout_s=self.options.request_timeout_s,
        )
        CONFIG.parent.mkdir(parents=True, exist_ok=True)
        tcp = CONFIG_TCP.format(tcp=self.options.tcp) if self.options.tcp else ""
        CONFIG.write_text(general + nri + tcp)
        CNI_CONFIG.parent.mkdir(parents=True, exist_ok=True)
        CNI_CONFIG.write_text(CNI_CONFLIST)

    def _import_image(self) -> None:
        images = ["ctr", "--namespace", "k8s.io", "images"]
        known = subprocess.run([*images, "ls", "-q"], check=True, capture_output=True, text=True)
        if image.NAME in known.stdout.split():
            return
        archive = Path("/tmp/box-image.tar")
        image.write_archive(Path("/bin/busybox"), archive)
        subprocess.run([*images, "import", os.fspath(archive)], check=True, capture_output=True)
        archive.unlink()


def _may_raise_limits() -> bool:
    """Tell whether this process may lower an oom_score_adj, as runc does for sandboxes."""
    status = Path("/proc/self/status").read_text()
    capabilities = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(capabilities.split()[1], 16) >> CAP_SYS_RESOURCE & 1)
