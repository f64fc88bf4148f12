"""Who may do what: keys and their files, and the principals that keys belong to.

Read ``keys`` (what a key is, and its file), then ``principals`` (whose keys a cluster accepts),
then ``credentials`` (the key of this process, and whether it insists on encryption). The sockets
that use them are in ``zbk.transport``; the record of the principals is in ``zbk.metadata``.
"""
