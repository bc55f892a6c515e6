"""Solve and link conda packages."""
