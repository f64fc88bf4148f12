"""Attacks on one bookie, by hand: ``python -m tests.hostile --help``. See ``README.md``."""
