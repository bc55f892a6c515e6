"""Read and write squashfs, the file system in a SIF."""
