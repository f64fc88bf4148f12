"""Tools for the files of a stopped bookie: check, rebuild, inspect.

Read ``sanity`` first, which changes nothing. ``rebuild`` makes a new index from ``rebuild_sources``
and compares it with the old one (``comparison``); ``reindex`` makes, at a start, the index files
that a disk lost. Both build a ``new_index``. ``inspect_*`` read single files (``inspection``).
"""
