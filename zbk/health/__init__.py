"""Health: the facts about a cluster and about a machine, and the rules that judge them.

Read ``finding`` first, then ``cluster_health`` (facts of a cluster and the rule that decides if it
is healthy, pure), then ``cluster_survey`` (reads the facts from the metadata store and from the
bookies). ``machine_health`` and ``machine_survey`` are the same for a machine. ``zbk status`` and
``zbk doctor`` show the results. ``redaction`` removes secrets from text that leaves a machine.
``cluster_sampler`` and ``cluster_rates`` are behind ``zbk top``. ``unsynced_ledgers`` merges what
the admin APIs of bookies answer (``bookie_api``); ``web_page`` reads other pages. Repairs do not
belong here.
"""
