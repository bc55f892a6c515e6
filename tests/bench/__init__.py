"""Benchmarks: `python -m tests.bench` compares alternatives and prints Markdown tables of medians and ratios."""
