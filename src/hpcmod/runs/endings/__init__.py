"""Known endings of runs, as data."""
