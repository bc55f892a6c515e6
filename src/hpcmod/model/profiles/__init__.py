"""Site profiles: from text to a Site, reporting all errors together."""
