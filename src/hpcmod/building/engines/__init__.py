"""The programs that build images: one file per engine, each tested by building a one-line image."""
