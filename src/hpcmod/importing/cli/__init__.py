"""The command import."""
