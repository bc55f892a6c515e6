"""Plans, records of installations and easyconfigs as values."""
