"""File access in directories that others may write: every open, create, replace, chmod, walk and remove goes here.

All functions guarantee, even if other users may write to the directory:

- No planted link is followed when writing, changing or removing; a `Tree` follows none below its root.
- Temporary files have random names, are new (`O_EXCL`) and can be opened only by their owner until complete.
- Modes are set on open descriptors, never on paths.
- Only regular files are read, up to a limit; a FIFO or a device does not make the reader hang.
- Errors are `OSError` with the file's name: callers add the cure.
"""
