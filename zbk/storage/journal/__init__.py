"""The journal: the first durable place of all promises.

Read ``record`` and ``segment`` first: the format. ``journal`` writes and syncs, ``journals`` holds
all journals of a bookie, ``replay`` reads them after a start and tells a torn tail from damage.
``last_mark`` is where a replay begins. ``zbk.storage.replay`` applies the records.
"""
