"""``zbk bookie``: create, run, inspect and repair bookies. ``group`` lists the commands."""
