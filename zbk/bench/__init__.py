"""Loads that ``zbk bench`` measures, and the floor that it compares them with.

Read ``load`` and ``write_load`` first, then ``ledger_loop``, which appends, and ``pace``, which
says when. ``samples``, ``histogram`` and ``cost`` are the figures. ``neighbor`` appends beside a
load. ``processes``, ``program``, ``job`` and ``writer_process`` run a load in several processes.
``read_load``, ``tail`` and ``sync_load`` are the other loads; ``floor`` and ``fsync`` need no
cluster.
"""
