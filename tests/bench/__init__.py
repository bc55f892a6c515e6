"""Benchmarks: `python -m tests.bench` measures side by side and prints Markdown tables of medians and ratios."""
