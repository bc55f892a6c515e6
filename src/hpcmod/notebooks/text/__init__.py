"""Render the scripts of a Jupyter server."""
