"""Read and write squashfs, the file system within a SIF."""
