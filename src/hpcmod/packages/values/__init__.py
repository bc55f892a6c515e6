"""Package sets, their states, requirements and locks as values."""
