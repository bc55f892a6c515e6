"""Reuse the layers of an image that are already in a SIF at hand."""
