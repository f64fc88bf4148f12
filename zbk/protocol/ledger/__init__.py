"""What a ledger is: its quorums, its metadata, and the bookies of its fragments.

Read ``quorum`` first: which slots hold an entry. ``metadata`` is what the metadata store keeps of a
ledger, ``changes`` are the changes that writers and recoveries make to it. ``placement`` chooses
bookies, ``coverage`` says when enough of them answered. How the store is reached is not here.
"""
