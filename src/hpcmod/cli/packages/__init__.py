"""Commands for a user's own packages on top of a container."""
