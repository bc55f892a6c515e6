"""Results of benchmarks: tables, formulas, and comparison with reference values."""
