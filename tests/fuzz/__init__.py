"""Fuzzing of every parser that reads bytes from outside; see `python -m tests.fuzz --help`."""
