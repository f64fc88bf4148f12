"""``zbk cluster``: create a cluster, and close it to strangers."""
