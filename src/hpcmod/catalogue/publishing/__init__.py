"""Publish a container: from an image or easyconfig to a record."""
