"""Quoting for shells, Lua and Tcl, and the writer of TOML."""
