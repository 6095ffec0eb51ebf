"""Plugin of a real runtime that kills itself right after an event; see tests.prove.plugin_process.

`python3 -m tests.prove.crashing_plugin run …` is `dranet-nri run …` with the trigger of
SITE/trigger.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from dranet_nri import cli
from tests.box.plugin import Plugin
from tests.box.waiting import wait_until
from tests.prove.plugin_process import CrashTrigger, install
from tests.prove.site import Site

SITE: Final = Site(Path("/run/crashing"))
TRIGGER: Final = SITE.root / "trigger"


class CrashingPlugin(Plugin):
    """The plugin as a process of its own, which dies once."""

    command: tuple[str, ...] = (sys.executable, "-m", __name__)

    def start_with_trigger(self, word: str, last: int) -> None:
        """Start it; once armed, it dies after event number last of those that have the word."""
        SITE.root.mkdir(exist_ok=True)
        TRIGGER.write_text(json.dumps({"last": last, "word": word}))
        SITE.armed.unlink(missing_ok=True)
        SITE.died.unlink(missing_ok=True)
        self.start()

    def arm(self) -> None:
        """Let events count from now on."""
        SITE.armed.touch()

    def wait_for_crash(self) -> str:
        """Return the event of which it died, once it has."""
        wait_until("the plugin to die", lambda: not self.running)
        return SITE.died.read_text()


if __name__ == "__main__":
    trigger = json.loads(TRIGGER.read_text())
    install(CrashTrigger(SITE, trigger["last"], trigger["word"]))
    sys.exit(cli.main())
