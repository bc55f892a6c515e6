"""Records of a catalogue on disk, their index and the journal."""
