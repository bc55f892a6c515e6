"""Find the source of an image, and fetch it."""
