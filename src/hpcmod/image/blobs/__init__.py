"""Download blobs from a registry, through the cache or directly to the reader."""
