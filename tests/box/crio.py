"""CRI-O on the node in a box: its configuration and its image."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.box import image, registry
from tests.box.cri import Cri, CriError
from tests.box.runtime import NRI_SOCKET, Runtime

DROP_INS: Final = Path("/etc/crio/crio.conf.d")
SNIPPET: Final = Path("/repo/manifests/node/crio/10-dranet.conf")  # what nodes are given
POLICY: Final = Path("/etc/containers/policy.json")
REGISTRIES: Final = Path("/etc/containers/registries.conf")
LOG: Final = Path("/tmp/crio.log")

# Its overlays can't stand on an overlay, and /run is memory. No systemd: cgroups are directories.
CONFIG: Final = f"""\
[crio]
root = "/run/box/containers"
[crio.image]
pause_image = "{image.NAME}"
[crio.runtime]
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
default_runtime = "runc"
[crio.runtime.runtimes.runc]
runtime_path = "/usr/sbin/runc"
[crio.nri]
nri_plugin_registration_timeout = "{{registration_timeout_s}}s"
nri_plugin_request_timeout = "{{request_timeout_s}}s"
"""
CONFIG_REGISTRIES: Final = f"""\
[[registry]]
prefix = "{image.NAME.partition("/")[0]}"
location = "127.0.0.1:{registry.PORT}"
insecure = true
"""


class Crio(Runtime):
    """One CRI-O, configured as manifests/node says and for the box beyond that."""

    program = "crio"
    socket = Path("/var/run/crio/crio.sock")
    log_file = LOG

    def _configure(self) -> None:
        for directory in (DROP_INS, POLICY.parent):
            directory.mkdir(parents=True, exist_ok=True)
        shutil.copy(SNIPPET, DROP_INS)
        (DROP_INS / "20-box.conf").write_text(
            CONFIG.format(
                registration_timeout_s=self.options.registration_timeout_s,
                request_timeout_s=self.options.request_timeout_s,
            )
        )
        POLICY.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        REGISTRIES.write_text(CONFIG_REGISTRIES)

    def _serves(self) -> bool:
        with Cri(f"unix://{self.socket}") as cri:
            try:
                conditions = cri.conditions()
            except CriError:
                return False
        return all(conditions.values()) and NRI_SOCKET.exists()

    def _import_image(self) -> None:
        built = image.build(Path("/bin/busybox"))
        with registry.serving(built), Cri(f"unix://{self.socket}") as cri:
            cri.pull(image.NAME)
