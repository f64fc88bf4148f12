"""The metadata store as a port, and its bodies.

Read ``store`` first, the port, then ``zookeeper`` (real clusters) or ``sqlite`` (one host).
``connect`` opens a store by its address, ``callbacks`` runs the callbacks of all bodies, and
``arguments`` checks the arguments of all. Nothing here knows the records of zbk.
"""
