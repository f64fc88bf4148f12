"""``zbk config``: show, check and make configuration files. ``help`` has a line for each option."""
