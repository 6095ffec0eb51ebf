"""`kubectl dranet` of a laptop: kubectl with the plugin and the kubeconfig of a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.system.cluster.control_plane import ControlPlane


@dataclass(frozen=True, slots=True)
class Plugin:
    """The plugin on the PATH of a user.

    Attributes:
        cluster: of the kubeconfig.
        programs: the directory of kubectl.
    """

    cluster: ControlPlane
    programs: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the user."""
        path = (self.programs, Path(sys.executable).parent, os.environ["PATH"])
        return {
            **os.environ,
            "PATH": ":".join(map(str, path)),
            "KUBECONFIG": str(self.cluster.kubeconfig),
        }

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a subcommand to its end."""
        return subprocess.run(
            ["kubectl", "dranet", *arguments], env=self.environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    def text(self, *arguments: str | Path) -> str:
        """Return the output of a subcommand that succeeds."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def document(self, *arguments: str | Path) -> Any:
        """Return the JSON of a subcommand that succeeds."""
        return json.loads(self.text(*arguments, "--output=json"))
