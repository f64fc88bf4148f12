"""A bookie as a process: its actors put together, started and stopped in order.

Read ``bookie`` first, then ``bookie_actors``. ``supervisor`` hears of the first failure,
``bookie_process`` is what ``zbk bookie init`` and ``run`` call, ``bookie_info`` what ``zbk bookie
show`` prints.
"""
