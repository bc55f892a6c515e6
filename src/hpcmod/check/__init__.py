"""Look at a machine or an installation and say what is found."""
