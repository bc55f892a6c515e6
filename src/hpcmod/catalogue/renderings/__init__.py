"""What a container's module and scripts are made of: kept with its record, moved with the catalogue, rendered again."""
