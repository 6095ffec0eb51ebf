"""Privileged facts from the plugin, because the shim lacks the capability to read them."""

from pathlib import Path

from dra_shim.discovery.notices import Notify, PrivilegedFactsUnreadable
from dranet_nri.errors import StateError
from dranet_nri.state import privileged_facts
from dranet_nri.state.privileged_facts import PrivilegedFacts


class PrivilegedFactsSource:
    """Reader of the plugin's file of privileged facts."""

    def __init__(self, run: Path, notify: Notify) -> None:
        """Create the reader; nothing is read yet.

        Args:
            run: directory of the plugin.
            notify: called when the file cannot be read, once for each reason; must not raise.
        """
        self._run, self._notify = run, notify
        self._facts = PrivilegedFacts()
        self._version: tuple[int, int, int] | None = None  # of the file that was read last
        self._error = ""

    def facts(self) -> PrivilegedFacts:
        """Return the facts of the file; those of the last successful read if it cannot be read."""
        error_text = ""
        try:
            version = privileged_facts.version_of(self._run)
            if version is None or version != self._version:
                self._facts, self._version = privileged_facts.load(self._run), version
        except (StateError, OSError) as error:
            error_text = str(error)
            if error_text != self._error:
                self._notify(PrivilegedFactsUnreadable(error))
        self._error = error_text
        return self._facts
