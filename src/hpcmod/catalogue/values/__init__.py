"""Records, states and changes of a catalogue as values."""
