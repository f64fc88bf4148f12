"""What zbk keeps in the metadata store, a module for each kind of record.

Read ``ledgers`` first, then ``bookies`` and ``registration``. ``logs`` and ``datasets`` are lists
of ledgers; ``underreplication``, ``task_locks`` and ``election`` coordinate autorecovery.
``ledger_closing`` closes a ledger together with the report of what it lacks.
"""
