"""The programs that build images: one file an engine, each tried by building an image of one line."""
