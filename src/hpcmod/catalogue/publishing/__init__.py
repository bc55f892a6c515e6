"""Publish a container: fetch, install, test, and put it in place."""
