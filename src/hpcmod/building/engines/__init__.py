"""The programs that build images: one file per engine, each tested by building an image of one file."""
