"""Maintain a catalogue over the years: refresh it for a new profile, move it, count its use."""
