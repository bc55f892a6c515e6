"""Read and write SIF files."""
