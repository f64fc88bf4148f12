"""The benchmark suite: zbk and its floor in turn, medians with spread, a report with pictures.

``python -m benchmarks`` (``make bench``) runs it. ``matrix`` has the cases, ``measuring`` runs
them, ``report`` and ``pictures`` show the results. Nothing is measured here: each case is a few
``zbk bench`` commands or ``experiments``, which also run by hand.
"""
