"""Look after a catalogue over the years: what was removed, modes, renderings, usage."""
