"""``zbk key``: make keys and look at them."""
