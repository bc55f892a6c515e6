"""Prove which network a run uses."""
