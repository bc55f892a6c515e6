"""Import batch scripts that start a container by hand."""
