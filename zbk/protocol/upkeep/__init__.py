"""What keeps a bookie's disk in order: garbage collection, compaction, scrubbing.

Read ``gc`` first: when a ledger may be dropped. ``compaction`` chooses entry logs, ``scrub`` keeps
what was found damaged and what is still to be reported. The steps on files are in
``zbk.storage.gc`` and ``zbk.storage.scrub``.
"""
