"""Build a user's package sets, and switch between their states."""
