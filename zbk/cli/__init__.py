"""The ``zbk`` command."""
