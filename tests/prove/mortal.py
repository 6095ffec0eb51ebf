"""Plugin of a real runtime that kills itself right after an event; see tests.prove.victim.

`python3 -m tests.prove.mortal run …` is `dranet-nri run …` with the fuse that SITE/fuse describes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from dranet_nri import cli
from tests.box.plugin import Plugin
from tests.box.waiting import wait_until
from tests.prove.site import Site
from tests.prove.victim import Fuse, lay

SITE: Final = Site(Path("/run/mortal"))
FUSE: Final = SITE.root / "fuse"


class MortalPlugin(Plugin):
    """The plugin as a process of its own, which dies once."""

    command: tuple[str, ...] = (sys.executable, "-m", __name__)

    def start_with(self, word: str, last: int) -> None:
        """Start it; once armed, it dies after event number last of those that have the word."""
        SITE.root.mkdir(exist_ok=True)
        FUSE.write_text(json.dumps({"last": last, "word": word}))
        SITE.armed.unlink(missing_ok=True)
        SITE.died.unlink(missing_ok=True)
        self.start()

    def arm(self) -> None:
        """Let events count from now on."""
        SITE.armed.touch()

    def wait_dead(self) -> str:
        """Return the event of which it died, once it has."""
        wait_until("the plugin to die", lambda: not self.running)
        return SITE.died.read_text()


if __name__ == "__main__":
    told = json.loads(FUSE.read_text())
    lay(Fuse(SITE, told["last"], told["word"]))
    sys.exit(cli.main())
