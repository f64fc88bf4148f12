"""Metrics and health of a process: what they are, how they are counted, how they are served.

``table`` defines every metric; the pages, dashboard, alerts and tests follow from it. A part of
the system counts in plain numbers and ``Buckets`` that only its own thread writes, and has a
*source*: a function that puts these numbers into ``Samples``. ``collector`` calls the sources when
a scrape comes and makes the families of prometheus-client of them. ``endpoint`` puts collector
and ``checks`` together for one process, and ``serving`` serves it. ``sampling`` decides which of
many alike events are timed.

Read ``table`` first, then ``samples``, ``collector``, ``endpoint``, ``serving``.
"""
