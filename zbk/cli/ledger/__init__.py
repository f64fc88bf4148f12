"""``zbk ledger``: create, fill, read, recover and check ledgers. ``group`` lists the commands."""
