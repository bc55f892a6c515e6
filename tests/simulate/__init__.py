"""A discrete-event model of how ranks start, and the measurements that calibrate it."""
