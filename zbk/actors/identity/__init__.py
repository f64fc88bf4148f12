"""Who a bookie is, and what it may have lost: checked before it serves.

Read ``identity`` first, then ``history``: what the cluster knows of the bookie. ``losses`` finds
out what may be gone, ``service`` takes single directories out, ``cookies`` and ``offline`` are for
operators.
"""
