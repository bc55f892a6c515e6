"""From a recipe and what the user asks for to all that goes into an image."""
