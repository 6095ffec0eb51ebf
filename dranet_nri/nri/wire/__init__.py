"""The wire protocol of NRI, without I/O: mux, ttrpc and session."""
