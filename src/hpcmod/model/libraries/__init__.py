"""Shared libraries: their dependencies, and where the dynamic loader finds them."""
