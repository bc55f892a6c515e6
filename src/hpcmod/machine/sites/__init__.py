"""The site profiles that come with hpcmod."""
