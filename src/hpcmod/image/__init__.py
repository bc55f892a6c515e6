"""Fetch, read and check images."""
