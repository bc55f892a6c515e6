"""From the text of a site profile to a Site, all its faults told together."""
