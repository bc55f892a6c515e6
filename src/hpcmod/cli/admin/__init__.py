"""Subcommands of `hpcmod catalogue` for the maintenance of a catalogue."""
