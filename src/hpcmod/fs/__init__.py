"""Files in directories that other people may write too: every open, create, replace, chmod, walk and remove goes here.

What holds for all functions, whoever else may write the directory:

- No planted link is followed where something is written, changed or removed; a `Tree` follows none below its root.
- Temporary files have random names, are new (`O_EXCL`) and only their owner may open them until they are whole.
- Modes are set on open descriptors, never on paths.
- Only regular files are read, up to a limit; a FIFO or a device does not hang the reader.
- Errors are `OSError` with the file's name: the callers give them their cure.
"""
