"""The journal: what was promised before it is anywhere else.

Read ``record`` and ``segment`` first: the format. ``journal`` writes and syncs, ``journals`` are
all of a bookie's, ``replay`` reads them after a start and tells a torn tail from damage.
``last_mark`` is where a replay begins. What a replayed record does is in ``zbk.storage.replay``.
"""
