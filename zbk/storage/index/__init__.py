"""The index: the location of each entry of each ledger.

Read ``index_page`` and ``index_file`` first: the format. ``ledger_cache`` holds pages in memory;
``index_flush`` writes changes to the files, whole or not at all (``flush_file``). ``census`` names
the files that must exist, ``deleted_ledgers`` the ids that the bookie refuses.
"""
