"""Download files and parts of files over HTTP, with logins where required."""
