"""The identity of a bookie and its possible losses: checked before it serves.

Read ``identity`` first, then ``history``: the facts that the cluster keeps about the bookie.
``losses`` finds what may be lost, ``service`` takes single directories out of service, ``cookies``
and ``offline`` are for operators.
"""
