"""Modes, trash and usage of a catalogue's files."""
