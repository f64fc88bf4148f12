"""The common part of all files of a bookie: the stop at a failed write, small files, open handles.

Read ``fail_stop`` first: one failed write or fsync ends everything. ``small_file`` replaces a file
whole, ``owned_file`` adds an owner and checksums, ``open_files`` bounds descriptors,
``ledger_ranges`` and ``byte_order`` are formats of several files. Each kind of large file has its
own room.
"""
