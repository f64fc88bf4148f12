"""Reading: a range of entries from its replicas, the LAC, and a ledger that is being written.

Read ``range_read`` first: one chunk, whatever its replicas do. ``lac_read`` and ``confirmed_read``
find out how far a ledger may be read, ``lac_session`` waits for that to change, ``tail`` follows a
ledger to its end. ``compared_read`` reads entries that nothing here can verify, for repairs.
"""
