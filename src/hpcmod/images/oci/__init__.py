"""Read OCI images, in a directory or an archive."""
