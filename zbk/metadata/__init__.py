"""The metadata store: a port with two bodies, and the records that zbk keeps in it.

Read ``stores/store.py`` first, the port, then ``values`` and ``paths``: the formats of the records
and their places. ``records`` has one module for each kind of record. Decisions belong to
``zbk.protocol``; here they become compare-and-swaps.
"""
