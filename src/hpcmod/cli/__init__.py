"""Flags in, one call, one print."""
