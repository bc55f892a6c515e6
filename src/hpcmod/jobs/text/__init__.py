"""Render batch scripts."""
