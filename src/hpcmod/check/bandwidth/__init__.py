"""Run benchmarks in a container, and collect their results."""
