"""The storage of a bookie on disk: journal, entry logs, index files, checkpoint.

Read ``bookie_storage`` first, the one entrance, then ``ledger_directory``. A start replays the
journal (``replay``), a checkpoint moves its mark (``checkpoint``). Of the rooms below, ``disk`` is
shared by all; ``entry_logs``, ``index`` and ``journal`` hold the formats; ``gc`` and ``scrub``
maintain them; ``directory`` has the identity and state of directories; ``tools`` work on stopped
bookies. Threads and sockets belong to ``zbk.actors``.
"""
