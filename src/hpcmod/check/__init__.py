"""Check a machine, an image or an installation, and report the findings."""
