"""Recipes of other tools as values."""
