"""Single operations on ledgers and bookies, each with a beginning and an end.

``recovery_pump`` recovers a ledger, ``outside_sync_pump`` syncs one that another client writes,
``garbage_collection`` and ``scrub`` start work at a bookie and follow it to its end.
"""
