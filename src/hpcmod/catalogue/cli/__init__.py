"""The commands about containers by name, and those of a catalogue."""
