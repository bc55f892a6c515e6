"""Verify the signatures of images."""
