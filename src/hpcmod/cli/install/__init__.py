"""Commands that install containers."""
