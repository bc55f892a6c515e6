"""Render the documents of OCI images."""
