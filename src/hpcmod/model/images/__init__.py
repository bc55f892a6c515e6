"""Images as values: references, facts and trust rules."""
