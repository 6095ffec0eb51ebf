"""Directories, socket and control files of a plugin under test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dranet_nri.settings import Settings

RESYNC_S: Final = Settings().resync_s


@dataclass(frozen=True, slots=True)
class Site:
    """The directories of one row, none of them the machine's; on tmpfs, as the real ones are.

    Attributes:
        resync_s: seconds between the plugin's periodic reconciles.
    """

    root: Path
    resync_s: float = RESYNC_S

    @property
    def settings(self) -> Settings:
        """Return the settings of the plugin."""
        return Settings(
            nri_socket=self.root / "nri.sock",
            allocations=self.root / "allocations",
            run=self.root / "run",
            cdi=self.root / "cdi",
            verbose=True,
            resync_s=self.resync_s,
        )

    @property
    def armed(self) -> Path:
        """Return the file that exists while events count."""
        return self.root / "armed"

    @property
    def died(self) -> Path:
        """Return the file that says after which event the plugin killed itself."""
        return self.root / "died"

    @property
    def log(self) -> Path:
        """Return the file that every plugin of the site logs to."""
        return self.root / "log"

    def spec(self, claim_uid: str) -> Path:
        """Return the claim's CDI spec, which exists while its gate is open."""
        return self.settings.cdi / f"dra.net-{claim_uid}.json"
