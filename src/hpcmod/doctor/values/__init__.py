"""Facts of a machine from which a profile is made."""
