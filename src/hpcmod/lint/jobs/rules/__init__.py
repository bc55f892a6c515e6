"""The rules about batch scripts."""
