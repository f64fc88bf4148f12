"""``zbk log``: append to, read and truncate logs. ``group`` lists the commands."""
