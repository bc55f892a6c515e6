"""Where an image comes from, and whether the site trusts it."""
