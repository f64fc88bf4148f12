"""The promises of ledger types: when an add is acknowledged, and how far the LAC may go. Pure.

Read ``level`` first, and then the types: ``pd_journal``, ``vd_journal``, ``vd_bypass_journal``. A
bookie's view of a ledger is ``bookie_ledger``, with its ``fence`` and, on VD ledgers, its
``sync_cursor``; what it may have lost is ``limbo``. A client computes the LAC of VD ledgers in
``synced_lac``. Journals and files are in ``storage``.
"""
