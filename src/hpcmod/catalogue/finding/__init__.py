"""Find, list and compare containers."""
