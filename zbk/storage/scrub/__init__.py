"""Finding damage: a scrub reads and verifies every byte of a ledger directory.

Read ``scrub_pass`` first; it uses ``scrub_log`` and ``scrub_index``. ``scrub_view`` is the view of
a directory in use, ``scrub_effects`` what a pass yields, ``damaged_entries`` the entries known to
be damaged. Reports are in ``zbk.actors.upkeep``, repairs in ``zbk.auditor``.
"""
