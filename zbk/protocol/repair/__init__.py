"""Repair: which ledgers lack replicas, and how they are made whole again.

The auditor: ``audit`` with ``lost_bookies`` and ``audit_job``; ``fragment_check`` and ``holdings``
compare the metadata with what bookies hold, and ``underreplicated`` is the task that follows. The
worker: ``ledger_repair``, which orders copies (``copy_order``) that ``fragment_copy`` carries out.
``backoff`` and ``absences`` pace both. Recovery of open ledgers is in ``recovery``.
"""
