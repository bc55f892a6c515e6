"""Compatibility of images with machines: facts of both, and the rules."""
