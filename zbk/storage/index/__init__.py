"""The index: where each entry of each ledger lies.

Read ``index_page`` and ``index_file`` first: the format. ``ledger_cache`` holds pages in memory and
``index_flush`` brings changes to the files, whole or not at all (``flush_file``). ``census`` names
the files that have to exist, ``deleted_ledgers`` the ids that are taken in no more.
"""
