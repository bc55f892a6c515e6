"""From the layers of an image to one tree of files."""
