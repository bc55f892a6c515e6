"""Read and write squashfs file systems."""
