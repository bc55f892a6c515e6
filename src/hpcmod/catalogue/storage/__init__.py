"""The files of a catalogue as files: taken out and put back, their modes and groups."""
