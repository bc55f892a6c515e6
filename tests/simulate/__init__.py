"""A discrete-event model of the start of ranks, and the measurements that calibrate it."""
