"""Bytes to messages and back, without I/O: NRI's mux, ttrpc and session."""
