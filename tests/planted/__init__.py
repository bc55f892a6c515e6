"""Faults planted on virtual Slurm nodes, and whether `hpcmod check`, `verify-net`, `bench` and `why` name them."""
