"""Ask servers for parts of files, and log in where they want it."""
