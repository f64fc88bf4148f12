"""Autorecovery: the auditor finds ledgers that lack replicas, workers and operators repair them.

Read ``process`` first, then ``auditor`` with ``audit_steps``, and ``worker`` with
``ledger_repairer`` and ``copier``. ``manual`` is the repair by hand, ``check_by_hand`` the check of
one ledger by hand, ``recheck`` brings a bookie's ledgers out of limbo. The rules are in
``zbk.protocol.repair``.
"""
