"""Entry logs: the bytes of all entries, in the order they came.

Read ``format`` first, then ``entry_log``, which writes, and ``entry_reader``, which reads at known
locations (``location``). ``scan`` and ``runs`` walk whole logs, ``uses`` counts which ledgers a log
holds. ``lost_regions`` and ``stored_copies`` say which bytes can be vouched for. Locations of
entries are in ``index``.
"""
