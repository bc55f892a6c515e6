"""Images: fetch, convert, verify, copy and cache them, and read what they contain."""
