"""Data sets for applications, such as the Spark connector.

Read ``datasets`` first: loads and snapshots. ``loads`` checks what a load begins with, ``ledgers``
are a data set's ledgers in the cluster, ``garbage`` deletes what loads left behind.
"""
