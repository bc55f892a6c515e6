"""Read SIF files, and their labels."""
