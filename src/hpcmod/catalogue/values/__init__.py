"""Records, states and changes of a catalogue, and advisories, as values."""
