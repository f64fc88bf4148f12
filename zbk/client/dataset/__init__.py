"""Data sets for applications, such as the Spark connector.

Read ``datasets`` first, the application's handle. ``loads`` checks the arguments that begin a load,
``commits`` makes a version of one, and ``snapshots`` reads a version. ``ledgers`` are a data set's
ledgers in the cluster, ``garbage`` deletes the leftovers of loads.
"""
