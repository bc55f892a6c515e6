"""Recipes in other people's formats, read as text and turned into easyconfigs of ours, or refused with the reason."""
