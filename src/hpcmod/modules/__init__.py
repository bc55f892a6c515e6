"""Installations: plan, install, update, repair and remove them, with their modulefiles and run scripts."""
