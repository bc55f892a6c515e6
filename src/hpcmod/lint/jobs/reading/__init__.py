"""Read batch scripts with a grammar of bash."""
