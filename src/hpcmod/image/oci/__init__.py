"""OCI images: their manifests, and layouts on a disk."""
