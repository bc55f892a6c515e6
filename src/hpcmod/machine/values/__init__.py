"""Site profiles as values, their keys, conditions, bind paths and settings."""
