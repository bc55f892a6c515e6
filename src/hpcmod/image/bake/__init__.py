"""Put a user's packages into an image, without a container build."""
