"""Read what an image contains, without starting it."""
