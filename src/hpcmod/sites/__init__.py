"""Facts of machines, one TOML file a machine, each with its source and date."""
