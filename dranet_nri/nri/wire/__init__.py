"""NRI wire protocol without I/O: mux, ttrpc and session."""
