"""Commands that check nodes and the network before a run, and explain a run afterwards."""
