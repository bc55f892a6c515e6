"""Rules about easyconfigs."""
