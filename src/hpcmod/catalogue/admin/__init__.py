"""Maintain a catalogue over the years: refresh it for a new profile, remove what is unused."""
