"""The command line itself: tables of commands, options that rooms share, output."""
