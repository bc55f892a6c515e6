"""Commands about this machine and its site profile."""
