"""A bookie as a system of pykka actors around the pure rules.

Read ``serve`` first: the actors that answer requests. ``upkeep`` maintains the disk, ``identity``
checks what a start may trust, ``process`` puts all of it together. ``base`` is the base class of
every actor, ``messages`` are those that cross these rooms, and ``space_gate`` is the flag that
admits adds. Rules belong below, in ``zbk.protocol``, ``zbk.durability`` and ``zbk.storage``.
"""
