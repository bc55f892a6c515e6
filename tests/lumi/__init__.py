"""Batch scripts for LUMI's container modules, run with LUMI's kind of module and with ours, and compared."""
