"""The actors that maintain a bookie's disk beside the requests.

``checkpoint`` moves the journal's mark, ``preparer`` does early what adds would wait for, ``gc``
with ``compaction`` reclaims space, ``scrub`` finds damage, ``disk_monitor`` watches free space, and
``waits`` is how their steps wait. Their rules are in ``zbk.protocol.upkeep``, the changes of files
in ``zbk.storage``.
"""
