"""Logs of communication libraries: what they say about the network that a run uses."""
