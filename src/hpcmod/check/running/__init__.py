"""Read the output of a run, and the stacks of one that is still running."""
