"""Render recipes as Dockerfiles and definition files."""
