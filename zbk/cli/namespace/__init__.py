"""``zbk namespace``: rights that count for many ledgers."""
