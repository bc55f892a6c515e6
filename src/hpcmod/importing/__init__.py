"""Convert recipes of other tools to easyconfigs; nothing of a recipe is executed."""
