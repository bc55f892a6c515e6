"""Render modulefiles and what belongs to them."""
