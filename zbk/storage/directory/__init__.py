"""A bookie's directories: their owner, whether they may be used, and what they lost.

Read ``identity`` first: cookie, incarnation, lock. ``history`` and ``lost_files`` find what is
missing, ``limbo`` keeps the ledgers that it may concern. ``serving``, ``unfinished`` and
``service_note`` are notes that survive a crash; ``wipe`` deletes everything. ``disk_space`` decides
what a full disk still accepts, with the help of ``disk_reserve``.
"""
