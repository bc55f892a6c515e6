"""The sources of a container's module and scripts: kept with its record, moved with the catalogue, rendered again."""
