"""Read who has signed an image."""
