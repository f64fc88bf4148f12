"""A bookie's directories: whose they are, whether they may be used, what they lost.

Read ``identity`` first: cookie, incarnation, lock. ``history`` and ``lost_files`` find out what is
gone, ``limbo`` keeps which ledgers it may concern, ``serving``, ``unfinished`` and ``service_note``
are notes that survive a crash. ``disk_space`` decides what a full disk still accepts.
"""
