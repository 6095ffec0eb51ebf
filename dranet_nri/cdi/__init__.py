"""CDI: container edits, the specs on disk and the gate."""
