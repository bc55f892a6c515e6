"""Find containers and installed copies by name."""
