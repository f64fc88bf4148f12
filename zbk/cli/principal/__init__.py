"""``zbk principal``: whose keys a cluster accepts."""
