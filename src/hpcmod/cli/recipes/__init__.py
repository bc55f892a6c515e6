"""Commands that check and import recipes."""
