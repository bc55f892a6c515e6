"""Man pages, JSON Schemas and the reference of commands, made from the commands and the values they print."""
