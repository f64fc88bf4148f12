"""The admin API: what the CLI does to a cluster, over HTTP.

``operation`` defines one operation: its route, its parameters, its answer. ``operations`` is the
table of all. ``ledgers``, ``logs``, ``datasets``, ``bookies``, ``own_bookie``, ``moves``,
``recovery`` and ``process`` carry them out on a ``Cluster``; ``jobs`` runs those that outlast their
request. ``routes`` serves the table, and ``openapi`` describes it; nothing else names a route.

Read ``operation``, then ``operations``. The checks of size and ``Host`` are in ``zbk.http``.
"""
