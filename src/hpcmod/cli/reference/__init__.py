"""Reference of the commands, generated from them at build time: man pages and Markdown pages."""
