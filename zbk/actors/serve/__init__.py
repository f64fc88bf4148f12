"""The actors that answer requests: storage, journal, read, lookup.

Read ``storage`` first: the one owner of entries and index. ``add_requests`` and ``read_requests``
are its halves, ``fair_queue`` the requests that wait for it, ``turn`` the output of one turn with
its ``tickets``, ``journal`` the write side of the journal and ``sync_queue`` its sync side.
``lac_watches`` holds clients that wait for a LAC, ``new_ledger_gate`` requests for unknown ledgers.
``unsynced_ledgers`` counts what is at risk.
"""
