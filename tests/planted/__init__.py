"""Faults on virtual Slurm nodes and in ranks, for the tests of `hpcmod check` and `hpcmod why`."""
