"""Build images from recipes."""
