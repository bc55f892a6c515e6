"""The commands for images: fetch, push, cache."""
