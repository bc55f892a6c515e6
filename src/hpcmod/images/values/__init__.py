"""Documents of OCI images as values."""
