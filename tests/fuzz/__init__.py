"""Fuzzing of every parser that reads external input; see `python -m tests.fuzz --help`."""
