"""A bookie as a process: its actors, started and stopped in order.

Read ``bookie`` first, with ``start_parts``, then ``bookie_actors``. ``supervisor`` keeps the first
failure. ``zbk bookie init`` and ``run`` call ``bookie_process``; ``bookie_info`` answers ``zbk
bookie show``, and ``bookie_metrics`` the metrics server.
"""
