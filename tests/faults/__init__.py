"""Fault injection: every command that changes something, killed or failed at each system call that writes.

See `python -m tests.faults --help`.
"""
