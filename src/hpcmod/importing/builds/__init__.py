"""Import build recipes of other tools: recipes for `hpcmod build`."""
