"""Dumps of the whole metadata tree, and the check of its records.

``dump_file`` holds the format of a dump, ``export`` writes one, ``restore`` fills an empty store
from one, ``record_check`` checks records and their references, in a dump or in a store. A dump
does not depend on the kind of the store, so it also moves a cluster from SQLite to ZooKeeper.

Read ``dump_file`` first.
"""
