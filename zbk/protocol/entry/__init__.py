"""Entries as bytes: words, digests, single entries, batches, and ranges of entry ids.

Read ``words`` first, which is the glossary, then ``digest`` and ``entry``: the format that the
writer encodes once. ``entry_batch`` holds entries on their way to bookies and to disk,
``read_batch`` the entries that a reader receives. ``spans`` is arithmetic on ranges of ids, and
``rounds`` on ids that repeat as those of a slot do. Which bookies hold an entry does not belong
here.
"""
