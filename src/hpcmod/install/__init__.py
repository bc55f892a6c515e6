"""Change a disk, so that nothing half-made is ever visible."""
