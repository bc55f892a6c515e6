"""What the nodes of a job say, and what it means."""
