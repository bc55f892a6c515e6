"""Merge the layers of an image into one file tree."""
