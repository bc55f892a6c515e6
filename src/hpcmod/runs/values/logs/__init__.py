"""Rules about the logs of network libraries."""
