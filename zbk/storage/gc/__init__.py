"""Reclaiming space: files of deleted ledgers, and entry logs of which little is live.

Read ``garbage`` first: the order in which files go. ``compaction`` moves what is live into a new
log (``compaction_log``), and notes each step (``compaction_note``). Which ledgers may go, and which
logs are compacted, is decided in ``zbk.protocol.upkeep``.
"""
