"""``zbk inspect``: print a bookie's files. ``group`` lists the commands."""
