"""Measure the bandwidth of collectives on nodes, and remember what was measured."""
