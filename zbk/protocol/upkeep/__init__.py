"""The upkeep of a bookie's disk: checkpoints, garbage collection, compaction, scrubbing.

Read ``gc`` first: when a ledger may be dropped. ``compaction`` chooses entry logs, ``scrub`` holds
the damage found and the reports that wait, ``scrub_pace`` limits its rate. ``checkpoint`` decides
when one is due. The steps on files are in ``zbk.storage.gc``, ``zbk.storage.scrub`` and
``zbk.storage.checkpoint``.
"""
