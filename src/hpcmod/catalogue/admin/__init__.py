"""Look after a catalogue over the years: a new profile, another place, usage."""
