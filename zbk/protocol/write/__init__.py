"""The writer of one ledger: batches out, acknowledgements in, and how far the LAC goes.

Read ``events`` first, then ``writer``, the one door. Entries pass ``append_queue``,
``batch_encoder``, ``write_window`` and ``ack_tracker`` (``write_path`` joins them).
``sync_rounds``, ``explicit_lac`` and ``idle_sync`` tell readers how far they may read;
``ensemble_keeper`` replaces bookies; ``closing`` ends the ledger. What an ack means for a ledger
type is in ``zbk.durability``.
"""
