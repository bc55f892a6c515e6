"""Jupyter servers and kernels, and editors."""
