"""Benchmarks: what specialising gains on this machine."""
