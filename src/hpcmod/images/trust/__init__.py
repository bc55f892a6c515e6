"""Check where an image comes from: signatures, policy, provenance."""
