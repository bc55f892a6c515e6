"""What every room uses: errors, processes, locks, logs, files, strict readers of text, and the command line itself."""
