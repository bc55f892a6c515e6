"""Turn image references into verified SIFs."""
