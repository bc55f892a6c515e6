"""Batch scripts: read them and apply the rules."""
