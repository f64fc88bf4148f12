"""Clusters on one machine: a metadata store and bookies, each a process of its own.

Read ``local`` (the cluster) and ``child`` (one of its processes) first; ``zookeeper`` and ``java``
start a real ZooKeeper. ``load`` brings a stream of bytes into a ledger. ``demo`` and its modules
are the story of ``zbk demo``, without a terminal.
"""

from typing import Final

BOOKIE_COUNT_MAX: Final = 64
"""Limit on the bookies of a local cluster."""
