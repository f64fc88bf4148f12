"""``zbk dataset``: inspect, drop and clean up data sets. ``group`` lists the commands."""
