"""Shared libraries: what a file needs, and where the dynamic loader finds it."""
