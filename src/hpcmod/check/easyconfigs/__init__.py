"""Mistakes in easyconfigs and in foreign recipes: the files, the input of the rules, and the rules."""
