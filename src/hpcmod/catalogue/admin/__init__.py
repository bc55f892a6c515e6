"""Maintain a catalogue over the years: refresh it for a new profile, move it, remove what is unused."""
