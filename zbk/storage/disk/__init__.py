"""What all files of a bookie share: stopping at a failed write, small files, open handles.

Read ``fail_stop`` first: one failed write or fsync ends everything. ``small_file`` replaces a file
whole, ``open_files`` bounds descriptors, ``ledger_ranges`` and ``byte_order`` are formats used by
several files. Files of one kind have their own rooms.
"""
