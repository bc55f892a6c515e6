"""Does an image fit a machine: ABI, loader, MPI, and the network libraries of the host."""
