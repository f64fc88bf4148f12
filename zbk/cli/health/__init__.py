"""Commands about the health of a cluster and of a machine; the rules are in ``zbk.health``."""
