"""Read the layers of an OCI image, and merge them into a tree."""
