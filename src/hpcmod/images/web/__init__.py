"""Clients of registries and web servers."""
