"""Logs: lists of ledgers that one owner at a time appends to.

Read ``metadata`` first: the list, and how it may change. ``owner`` takes a log over and rolls it
from ledger to ledger; ``position`` names an entry in a log. Reading and following logs is in
``zbk.client.log``, since it needs no rule of its own.
"""
