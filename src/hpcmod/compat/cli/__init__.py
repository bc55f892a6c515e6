"""The commands about fit: compat, site netstack."""
