"""Settings shared by all tests."""

from hypothesis import settings

# Machines are shared and slow in phases: a deadline per example would only measure the neighbours.
settings.register_profile("bcspec", deadline=None)
settings.load_profile("bcspec")
