"""HTTP to the processes of the cluster, past any proxy.

A proxy in the environment is for the world outside. It does not reach loopback, and often not the
hosts of a cluster.
"""

import urllib.request
from typing import Final

DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens URLs. Any thread may use it."""
