"""Catalogue records of containers, and the changes allowed on them."""
