"""Facts about the nodes of a job: what is expected of them, and how they compare with each other."""
