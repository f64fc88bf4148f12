"""A bookie as a system of pykka actors around the pure rules.

Read ``serve`` first: what requests pass through. ``upkeep`` are the actors that maintain the disk,
``identity`` is what a start checks, ``process`` puts all of it together. ``base`` is what every
actor has, ``space_gate`` the flag that says whether entries are let in. Rules belong below, in
``zbk.protocol``, ``zbk.durability`` and ``zbk.storage``.
"""
