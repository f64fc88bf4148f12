"""``zbk bookie``: make, run, look at and repair bookies. ``group`` lists the commands."""
