"""Facts of machines, one TOML file per machine, each with its source and date."""
