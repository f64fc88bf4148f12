"""``zbk config``: show, check and create configuration files."""
