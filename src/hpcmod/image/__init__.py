"""Get, read and check images."""
