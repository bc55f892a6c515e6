"""Find mistakes in batch scripts and easyconfigs."""
