"""The web console: pages about a cluster, rendered on the server, and actions if they are allowed.

Read ``app`` first: the routes, and the rules of each request. A page is a function that returns
plain data (``pages``, ``ledger_pages``, ``durability``, ``settings``), a template that shows them,
and a JSON twin of the same data. ``collector`` gathers live figures in threads of its own,
``history`` keeps 15 minutes of them, ``figures`` and ``ledger_map`` draw SVG. ``actions`` changes
things. ``zbk.http`` serves the app.

The cost follows the number of bookies: a page of ledgers reads a range of the metadata tree.
"""
