"""Logs: lists of ledgers, each appended to by one owner at a time.

Read ``metadata`` first: the list and its legal changes. ``owner`` takes a log over and rolls it
from ledger to ledger; ``position`` names an entry in a log. Reads and tails of logs need no rule of
their own: they are in ``zbk.client.log``.
"""
