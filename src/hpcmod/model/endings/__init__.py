"""Failed and hanging runs: known error messages, and stacks grouped by rank."""
