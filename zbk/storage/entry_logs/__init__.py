"""Entry logs: the bytes of all entries, in order of arrival.

Read ``format`` first, then ``entry_log``, which writes, and ``entry_reader``, which reads at known
locations (``location``). ``scan`` and ``runs`` walk whole logs, ``uses`` finds the ledgers in a
log. ``lost_regions`` and ``stored_copies`` decide which bytes are sound. Locations of entries are
in ``index``.
"""
