"""The rules of replicated ledgers: pure state machines and values, no I/O, no clock, no dice.

Read ``entry`` and ``ledger`` first: the bytes of an entry, and who holds it. Then ``write``,
``read`` and ``recovery``: the protocol. ``repair`` replaces lost replicas, ``upkeep`` reclaims and
checks a bookie's disk, ``log`` and ``dataset`` are built on ledgers. ``procedure`` drives rules
that are written as generators, ``throttle`` limits the rate of background work. The words are in
``entry/words.py``. Whatever needs a file, a socket, a thread or the time belongs above.
"""
