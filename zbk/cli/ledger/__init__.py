"""``zbk ledger``: create, write, read, recover and check ledgers. ``group`` lists the commands."""
