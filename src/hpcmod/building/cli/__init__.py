"""The command build."""
