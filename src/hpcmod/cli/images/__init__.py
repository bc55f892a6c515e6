"""Commands that fetch, build and check images."""
