"""The actors that maintain a bookie's disk beside the requests.

``checkpoint`` moves the journal's mark, ``preparer`` does early what adds would wait for, ``gc``
with ``compaction`` reclaims space, ``scrub`` looks for damage, ``disk_monitor`` watches free space.
What they decide is in ``zbk.protocol.upkeep``, what they do to files in ``zbk.storage``.
"""
