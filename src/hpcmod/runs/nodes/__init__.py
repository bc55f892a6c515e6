"""Ask the nodes of a job."""
