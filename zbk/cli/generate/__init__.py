"""``zbk generate``: files for shells and service managers, on standard output."""
