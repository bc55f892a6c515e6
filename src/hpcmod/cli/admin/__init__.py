"""Verbs below `hpcmod catalogue` for those who look after a catalogue over the years."""
