"""Reading: a range of entries from its replicas, the LAC, and a ledger that is being written.

Read ``range_read`` first: one chunk, whatever its replicas answer. ``lac_read`` and
``confirmed_read`` find out how far a ledger may be read, ``lac_session`` waits for a higher LAC,
``tail`` follows a ledger to its end. ``compared_read`` reads entries without their digest, for
repairs.
"""
