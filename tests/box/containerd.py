"""containerd on the node in a box: its configuration and its image."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

from tests.box import image
from tests.box.runtime import NRI_SOCKET, Runtime, may_raise_limits

CONFIG: Final = Path("/etc/containerd/config.toml")
SOCKET: Final = Path("/run/containerd/containerd.sock")
LOG: Final = Path("/tmp/containerd.log")

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


def version() -> tuple[int, int]:
    """Return major and minor version of the installed containerd."""
    text = subprocess.run(
        ["containerd", "--version"], check=True, capture_output=True, text=True
    ).stdout
    match = re.search(r"\b(\d+)\.(\d+)\.\d+", text)
    assert match is not None, text
    return int(match[1]), int(match[2])


class Containerd(Runtime):
    """One containerd."""

    program = "containerd"
    socket = SOCKET
    log_file = LOG

    def _configure(self) -> None:
        template = CONFIG_1_7 if version() < (2, 0) else CONFIG_2
        general = template.format(
            image=image.NAME, restrict_oom=str(not may_raise_limits()).lower()
        )
        nri = CONFIG_NRI.format(
            registration_timeout_s=self.options.registration_timeout_s,
            request_timeout_s=self.options.request_timeout_s,
        )
        CONFIG.parent.mkdir(parents=True, exist_ok=True)
        tcp = CONFIG_TCP.format(tcp=self.options.tcp) if self.options.tcp else ""
        CONFIG.write_text(general + nri + tcp)

    def _serves(self) -> bool:
        # The CRI plugin comes up last: answering at all is not enough.
        command = ["ctr", "--timeout", "60s", "plugins", "ls", "id==cri"]
        done = subprocess.run(command, check=False, capture_output=True)
        return done.returncode == 0 and NRI_SOCKET.exists()

    def _import_image(self) -> None:
        images = ["ctr", "--namespace", "k8s.io", "images"]
        listed = subprocess.run([*images, "ls", "-q"], check=True, capture_output=True, text=True)
        if image.NAME in listed.stdout.split():
            return
        archive = Path("/tmp/box-image.tar")
        image.write_archive(Path("/bin/busybox"), archive)
        subprocess.run([*images, "import", os.fspath(archive)], check=True, capture_output=True)
        archive.unlink()
