"""The files of a catalogue: records, index, journal."""
