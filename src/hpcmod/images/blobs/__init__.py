"""Download the blobs of an image, and check each."""
