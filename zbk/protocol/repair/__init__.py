"""Repair: which ledgers lack replicas, and how they become whole again.

The auditor: ``audit`` with ``lost_bookies`` and ``audit_job``; ``fragment_check`` and ``holdings``
compare the metadata with what bookies hold, and ``underreplicated`` is the task that follows. The
worker: ``repair_task`` with ``backoff`` and ``absences``; ``ledger_repair`` orders copies
(``copy_order``) that ``fragment_copy`` carries out. ``forced_move`` removes a bookie although
entries are lost with it. Recovery of open ledgers is in ``recovery``.
"""
