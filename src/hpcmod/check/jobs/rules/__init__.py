"""Rules for batch scripts: each finds one kind of mistake."""
