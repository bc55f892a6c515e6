"""Plant faults on virtual Slurm nodes, and check that `hpcmod check`, `verify-net`, `bench` and `why` report them."""
