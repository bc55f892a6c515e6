"""Put packages into a new image."""
