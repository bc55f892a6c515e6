"""Container images as modules that a supercomputer's users can load."""
