"""Reclaiming space: files of deleted ledgers, and entry logs with few live entries.

Read ``garbage`` first: the order in which files are removed. ``compaction`` moves live entries into
a new log (``compaction_log``) after a note (``compaction_note``), and asks the owner of the index
by ``compaction_questions``. ``zbk.protocol.upkeep`` decides which ledgers and logs to take.
"""
