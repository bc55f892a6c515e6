"""The mistakes that people make in batch scripts."""
