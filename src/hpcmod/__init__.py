"""Container images as modules that a supercomputer's users can load."""

__version__ = "0.1.0"
