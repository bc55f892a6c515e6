"""Data files: what known problems leave in the output of a run, and the program that looks at a job."""
