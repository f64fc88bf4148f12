"""Ledgers: their quorums, their metadata, and the bookies of their fragments.

Read ``quorum`` first: which slots store an entry. ``metadata`` is the record in the metadata store,
``changes`` are the changes that writers and recoveries make to it. ``placement`` chooses bookies,
``coverage`` decides when enough of them answered. ``filter`` selects ledgers. Access to the
store does not belong here.
"""
