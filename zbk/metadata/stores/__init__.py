"""The metadata store as a port, and its bodies.

Read ``store`` first, the port, then ``zookeeper`` (of every real cluster) or ``sqlite`` (of one
host). ``connect`` opens a store by its address, ``callbacks`` is how all of them call back,
``arguments`` what all of them refuse. Nothing here knows what zbk keeps.
"""
