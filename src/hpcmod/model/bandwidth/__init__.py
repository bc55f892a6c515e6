"""Bandwidths of collectives: tables of benchmarks, formulas, and the comparison with references."""
