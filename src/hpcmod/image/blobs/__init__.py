"""Blobs of a registry on their way to whoever reads them, through the cache or past it."""
