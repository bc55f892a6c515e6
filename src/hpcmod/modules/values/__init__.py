"""Plans, records of installations, easyconfigs and advisories as values."""
