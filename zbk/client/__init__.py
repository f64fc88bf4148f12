"""The client: pykka actors around the writer and reader rules, and the public API.

Read ``api`` first: what ``zbk.connect`` returns; ``calls`` has its methods, by subject. ``write``
and ``read`` are the halves of the client, ``log`` and ``dataset`` are built on them, ``operations``
are single calls to bookies, and ``cluster`` reaches bookies and metadata for all of them.
``arguments`` checks public calls. Rules belong to ``zbk.protocol``.
"""
