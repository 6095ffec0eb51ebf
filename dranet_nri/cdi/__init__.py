"""CDI: container edits, specs on disk, and the gate."""
