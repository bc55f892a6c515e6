"""Read from an image what decides whether it fits."""
