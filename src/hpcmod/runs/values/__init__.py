"""What nodes, logs and measurements say, as values."""
