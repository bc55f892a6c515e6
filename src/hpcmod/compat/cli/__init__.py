"""The command about fit: site netstack."""
