"""The commands about runs: check, bench, why, profile."""
