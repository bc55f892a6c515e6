"""Container images as modules that a supercomputer's users can load."""

__version__ = "1.0.0"
