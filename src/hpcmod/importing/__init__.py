"""Make easyconfigs from the recipes of other tools."""
