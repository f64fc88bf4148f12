"""Health: the facts about a cluster and about a machine, and the rules that judge them.

Read ``finding`` first, then ``cluster_health`` (facts of a cluster and the rule that decides if it
is healthy, pure), then ``cluster_survey`` (reads the facts from the metadata store and from the
bookies). ``zbk status`` shows the result. Repairs do not belong here.
"""
