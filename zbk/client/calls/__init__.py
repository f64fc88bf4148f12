"""The public methods of ``Client``, by subject.

``connection`` holds the parts of a connected client, and opens and closes them. It is the base of
``ledger_writing``, ``ledger_reading``, ``logs`` and ``bookies``, and ``api`` composes ``Client``
from these. A method checks its arguments and calls one function of a room below.
"""
