"""``zbk autorecovery``: run, look at and switch autorecovery. ``group`` lists the commands."""
