"""Look at all nodes of a job with one job step."""
