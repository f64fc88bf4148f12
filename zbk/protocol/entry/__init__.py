"""Entries as bytes: words, digests, single entries, batches, and ranges of entry ids.

Read ``words`` first, which is the glossary, then ``digest`` and ``entry``: the format that the
writer encodes once. ``entry_batch`` is what travels and is stored, ``read_batch`` what a reader
receives. ``spans`` is arithmetic on ranges of ids. Nothing here knows which bookies hold an entry.
"""
