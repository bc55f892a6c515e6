"""Jupyter kernels and servers, and editors, that run Python in a container."""
