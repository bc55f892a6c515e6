"""The commands about this machine: doctor, site."""
