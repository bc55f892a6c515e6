"""Recipes and build plans as values."""
