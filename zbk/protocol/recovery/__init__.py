"""Recovery: the close of a ledger whose writer is gone, without the loss of acknowledged entries.

Read ``recovery`` first, then its steps in their order: ``fence``, ``reads`` and ``writes``.
``length`` finds the length of a ledger in which nothing was found, ``retries`` decides which
bookies are asked again. Fencing at the bookie is in ``zbk.durability.bookie_ledger``; repair of
closed ledgers is in ``repair``.
"""
