"""Check a machine and its profile, and make new profiles."""
