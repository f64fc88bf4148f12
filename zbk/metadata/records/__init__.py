"""The records that zbk keeps in the metadata store, with a module for each kind.

Read ``compare_and_swap`` first: how every record changes. Then ``ledgers``, ``bookies`` and
``registration``. ``logs`` and ``datasets`` are lists of ledgers; ``underreplication``,
``task_locks`` and ``election`` coordinate autorecovery. ``ledger_closing`` closes a ledger together
with the report of its missing entries.
"""
