"""The public methods of ``Client``, by subject.

``connection`` holds the parts of a connected client, and opens and closes them. On it stand
``ledger_writing``, ``ledger_reading``, ``logs`` and ``bookies``, of which ``api`` composes
``Client``. A method checks its arguments and calls one function of a room below.
"""
