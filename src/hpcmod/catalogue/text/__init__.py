"""Render the modules and pages of a catalogue."""
