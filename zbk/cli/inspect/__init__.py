"""``zbk inspect``: look into a bookie's files. ``group`` lists the commands."""
