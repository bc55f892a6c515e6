"""What users see of a catalogue: modulefiles, notices, advisories, pages."""
