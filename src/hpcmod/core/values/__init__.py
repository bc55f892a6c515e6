"""Values that several rooms share, and strict readers of JSON and TOML: no file, no environment, no clock."""
