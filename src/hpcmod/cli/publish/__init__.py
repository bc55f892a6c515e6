"""Commands that change or document a catalogue."""
