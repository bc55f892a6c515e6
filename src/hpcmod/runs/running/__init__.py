"""Look at a running job."""
