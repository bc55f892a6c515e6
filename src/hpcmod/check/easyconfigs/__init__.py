"""Mistakes in easyconfigs and in recipes of others: the files, what the rules look at, and the rules."""
