"""A user's own packages as values: sets, states, requirements and locks."""
