"""What users see of a catalogue, generated from its records."""
