"""Find the files of easyconfigs."""
