"""Run a collective on two nodes, and read which network it used."""
