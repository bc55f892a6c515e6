"""Requests for jobs, their layout, and what the scheduler says."""
