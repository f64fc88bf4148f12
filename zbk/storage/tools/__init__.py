"""Tools for files of a bookie that does not run: check, rebuild, look inside.

Read ``sanity`` first, which changes nothing. ``rebuild`` makes a new index from
``rebuild_sources`` and compares it with the old one (``comparison``); ``reindex`` makes the index
files that a disk lost, at a start. Both build a ``new_index``. ``inspect_*`` look into single
files.
"""
