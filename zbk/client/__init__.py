"""The client: pykka actors around the writer and reader rules, and the public API.

Read ``api`` first: what ``zbk.connect`` returns. ``write`` and ``read`` are its halves, ``log`` and
``dataset`` are built on them, ``operations`` are single calls to bookies, ``cluster`` is how all of
them reach bookies and metadata. ``arguments`` checks public calls. Rules belong to
``zbk.protocol``.
"""
