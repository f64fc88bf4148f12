"""``zbk dataset``: look at, drop and tidy data sets. ``group`` lists the commands."""
