"""Pure values and decisions: opens no file, reads no environment, asks no clock."""
