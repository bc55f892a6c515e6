"""The files of a catalogue: removed and restored, their modes and groups."""
