"""Set up and care for a catalogue."""
