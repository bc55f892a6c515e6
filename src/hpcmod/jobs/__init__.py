"""Batch scripts and job steps, and the scheduler that runs them."""
