"""Checks of bcspec against code that it was not written for: what the interpreter comes with."""
