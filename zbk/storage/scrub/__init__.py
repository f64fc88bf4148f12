"""Looking for damage: every byte of a ledger directory is read and verified.

Read ``scrub_pass`` first; it uses ``scrub_log`` and ``scrub_index``. ``scrub_view`` is what a
scrubber sees of a directory that is in use, ``damaged_entries`` what was found. Reports and repairs
are not here.
"""
