"""Measurements of bandwidth, and how to read them."""
