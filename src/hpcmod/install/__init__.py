"""Install, change and remove container modules on disk without ever exposing an incomplete state."""
