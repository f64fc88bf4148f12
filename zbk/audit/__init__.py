"""The audit log: who did what to a cluster, and who was refused.

Read ``record`` (one line), then ``pace`` (how many lines a stranger can cause), then ``trail`` (the
queue and the thread that writes). The file is ``zbk.system.rotated_file``. The log of events
(``zbk.system.event_log``) is another: it tells what the process does, not who asked for it.
"""
