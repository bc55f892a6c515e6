"""Kernels, servers and settings of editors as values."""
