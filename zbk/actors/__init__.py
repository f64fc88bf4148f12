"""A bookie as a system of pykka actors around the pure rules.

Read ``serve`` first: the actors that answer requests. ``upkeep`` maintains the disk, ``identity``
checks what a start may trust, ``process`` assembles and runs all of it. ``base`` holds the base
classes of the actors, ``messages`` those messages that cross these rooms, and ``space_gate`` the
flag that admits adds. Rules belong below, in ``zbk.protocol``, ``zbk.durability`` and
``zbk.storage``.
"""
