"""The version of zbk: the package, its build and the bookies take it from here."""

__version__ = "0.1.0"
