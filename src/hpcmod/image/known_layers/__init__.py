"""Reuse layers of an image that a local SIF already contains."""
