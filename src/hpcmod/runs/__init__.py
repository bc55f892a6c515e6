"""Look at runs: check nodes, measure, profile, and explain what happened."""
