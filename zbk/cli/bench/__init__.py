"""``zbk bench``: measure a cluster and its floor. ``group`` lists the commands."""
