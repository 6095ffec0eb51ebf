"""The process `dranet-nri run`: wiring and loops."""
