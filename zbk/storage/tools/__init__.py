"""Tools for files of a bookie that does not run: check, rebuild, look inside.

Read ``sanity`` first, which changes nothing. ``rebuild`` makes an index anew, from
``rebuild_sources``; ``reindex`` does so at a start, for files that a disk lost. ``inspect_*`` look
into single files.
"""
