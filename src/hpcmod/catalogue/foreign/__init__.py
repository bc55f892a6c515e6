"""Recipes in foreign formats, read as text and converted to hpcmod easyconfigs, or refused with the reason."""
