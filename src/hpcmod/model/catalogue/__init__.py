"""What a catalogue knows of containers, and how that may change."""
