"""Measure the bandwidth between nodes or GPUs."""
