"""What keeps a bookie's disk in order: checkpoints, garbage collection, compaction, scrubbing.

Read ``gc`` first: when a ledger may be dropped. ``compaction`` chooses entry logs, ``scrub`` keeps
what was found damaged and what is still to be reported, ``scrub_pace`` limits its rate.
``checkpoint`` says when one is due. The steps on files are in ``zbk.storage.gc``,
``zbk.storage.scrub`` and ``zbk.storage.checkpoint``.
"""
