"""Whether an image fits a machine: what both have, and the rules."""
