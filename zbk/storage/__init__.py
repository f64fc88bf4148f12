"""What a bookie keeps on disk: journal, entry logs, index files, checkpoint.

Read ``bookie_storage`` first, the one door, then ``ledger_directory``. A start replays the journal
(``replay``), a checkpoint moves its mark (``checkpoint``). Below are the rooms: ``disk`` is shared
by all, ``entry_logs``, ``index`` and ``journal`` hold the formats, ``gc`` and ``scrub`` maintain
them, ``directory`` says whose they are, ``tools`` work on stopped bookies. Threads and sockets
belong to ``zbk.actors``.
"""
