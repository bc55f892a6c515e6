"""Commands that find and run containers."""
