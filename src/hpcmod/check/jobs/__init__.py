"""Common mistakes in batch scripts."""
