"""Batch scripts for LUMI's container modules, each run under a module by LUMI's rules and under ours, and compared."""
