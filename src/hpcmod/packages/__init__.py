"""Packages that users add to a container."""
