"""Image recipes: from a recipe and the user's options to a build plan."""
