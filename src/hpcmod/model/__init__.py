"""Pure values and decisions: no file access, no environment access, no clock."""
