"""Recovery: closing a ledger in the place of its writer, without losing what was acknowledged.

Read ``recovery`` first, then its steps in their order: ``fence``, ``reads`` and ``writes``.
``length`` finds out how long the ledger is where no entry tells, ``retries`` which bookies may be
asked again. Fencing at the bookie is in ``zbk.durability.bookie_ledger``; repair of closed ledgers
is in ``repair``.
"""
