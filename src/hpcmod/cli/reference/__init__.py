"""Reference of the commands, generated from them at build time: man pages, Markdown pages and JSON Schemas."""
