"""TCX facts that the plugin wrote, because the shim lacks the capability to read them."""

from pathlib import Path

from dra_shim.discovery.notices import Notify, TcxFileUnreadable
from dranet_nri.errors import StateError
from dranet_nri.state import tcx
from dranet_nri.state.tcx import PrivilegedFacts


class TcxSource:
    """Reads what the plugin of this node wrote last."""

    def __init__(self, run: Path, notify: Notify) -> None:
        """Prepare; nothing is read yet.

        Args:
            run: the plugin's directory.
            notify: called when the plugin's file cannot be read, once for each reason; must not
                raise.
        """
        self._run, self._notify = run, notify
        self._insight = PrivilegedFacts()
        self._trouble = ""

    def insight(self) -> PrivilegedFacts:
        """Return what the plugin sees; the last that was read, if nothing can be now."""
        trouble = ""
        try:
            self._insight = tcx.load(self._run)
        except (StateError, OSError) as error:
            trouble = str(error)
            if trouble != self._trouble:
                self._notify(TcxFileUnreadable(error))
        self._trouble = trouble
        return self._insight
