"""Commands that write, check and start jobs."""
