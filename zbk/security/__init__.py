"""Who may do what: keys and their files, and the principals that keys belong to.

Read ``keys`` (what a key is, and its file), then ``principals`` (whose keys a cluster accepts),
then ``credentials`` (the key of this process, and whether it insists on encryption).

What principals may do: ``rights`` (the decision), ``namespaces`` (grants for many ledgers),
``operations`` (what the wire's operations need), ``access_table`` (what a bookie knows). The
sockets that use keys are in ``zbk.transport``, the gate of a bookie in ``zbk.actors.serve``, the
records in ``zbk.metadata``.
"""
