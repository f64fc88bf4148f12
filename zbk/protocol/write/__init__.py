"""The writer of one ledger: batches out, acknowledgements in, and the LAC.

Read ``events`` and ``limits`` first, then ``writer``, the only entrance. Entries pass
``append_queue``, ``batch_encoder``, ``write_window`` and ``ack_tracker`` (``write_path`` joins
them).
``sync_rounds``, ``explicit_lac`` and ``idle_sync`` make the LAC known to readers, and
``sync_answers`` answers the calls that wait for it; ``unsynced_limit`` bounds what is not durable;
``ensemble_keeper`` replaces bookies; ``closing`` ends the ledger. The meaning of an ack for a
ledger type is in ``zbk.durability``.
"""
