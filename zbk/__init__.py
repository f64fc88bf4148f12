"""zbk: replicated ledgers in Python, with pluggable durability."""

__version__ = "0.1.0"
