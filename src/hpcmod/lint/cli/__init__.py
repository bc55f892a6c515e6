"""The command lint."""
