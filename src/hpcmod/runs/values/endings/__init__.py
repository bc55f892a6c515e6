"""Endings of runs: what is known, and what fits."""
