"""What may go wrong in one run, and how much of it: drawn first, from the tape.

Half of the faults are absent in any one run, so that what needs a long quiet stretch, or one kind
of trouble in plenty, is met too (swarm testing).
"""

from zlib import crc32

import msgspec

from tests.simulation.kernel import MS, SECOND
from tests.simulation.tape import Tape

CREDIT_SHARE = 4


class Faults(msgspec.Struct, kw_only=True):
    """Shares are per mille. Times in microseconds."""

    # network, per message
    slow_share: int = 0
    slow_us_max: int = 0
    drop_share: int = 0
    slow_link_share: int = 0  # of links: all their requests, or all their answers, are slow
    slow_link_us: int = 0
    lossy_link_share: int = 0  # of links: of what they carry, so much is lost
    lossy_link_loss: int = 0
    duplicate_share: int = 0
    replay_share: int = 0  # delivered once more, much later
    # what the nemesis does, one of them at a time
    deeds: tuple[str, ...] = ()
    deed_gap_us: int = SECOND
    # metadata, per operation
    lost_reply_share: int = 0
    lost_request_share: int = 0
    stale_read_share: int = 0
    overtake_share: int = 0  # somebody else's operation comes between read and write
    metadata_slow_us_max: int = 2 * MS
    # disks
    sync_us_max: int = 3 * MS
    is_sync_stalling: bool = False
    is_skewed: bool = False

    @property
    def has_small_credit(self) -> bool:
        """True in one run of four; not drawn, so that seeds keep their other decisions."""
        return crc32(msgspec.json.encode(self)) % CREDIT_SHARE == 0

    @classmethod
    def draw(cls, tape: Tape) -> "Faults":
        """Draw what this run has."""
        faults = cls()
        if tape.draw(2):
            faults.slow_share = tape.pick((10, 50, 200))
            faults.slow_us_max = tape.pick((5 * MS, 50 * MS, 900 * MS))
        if tape.draw(2):
            faults.drop_share = tape.pick((2, 10, 40))
        if tape.draw(3) == 1:
            faults.slow_link_share = tape.pick((100, 300))
            faults.slow_link_us = tape.pick((20, 100, 300)) * MS
        if tape.draw(4) == 1:
            faults.lossy_link_share = tape.pick((100, 300))
            faults.lossy_link_loss = tape.pick((100, 400))
        if tape.draw(3) == 1:
            faults.duplicate_share = tape.pick((5, 30))
        if tape.draw(3) == 1:
            faults.replay_share = tape.pick((5, 20))
        faults.deeds = tuple(deed for deed in DEEDS if tape.draw(2))
        faults.deed_gap_us = tape.pick((1000, 400, 150)) * MS
        if tape.draw(2):
            faults.lost_reply_share = tape.pick((20, 100, 300))
            faults.lost_request_share = tape.pick((0, 20, 100))
        if tape.draw(2):
            faults.stale_read_share = tape.pick((50, 200))
            faults.overtake_share = tape.pick((100, 400))
        if tape.draw(3) == 1:
            faults.metadata_slow_us_max = 300 * MS
        faults.sync_us_max = tape.pick((1, 3, 20)) * MS
        faults.is_sync_stalling = tape.draw(4) == 1
        faults.is_skewed = tape.draw(3) == 1
        return faults


DEEDS = (
    "crash",  # kill -9 of a bookie
    "long_outage",  # longer than a session, so that it is given up
    "crash_in_operation",  # at the n-th operation of its disk
    "power_loss",
    "power_loss_of_all",
    "failed_fsync",
    "failed_write",
    "full_disk",
    "pause_bookie",
    "pause_client",
    "reset",
    "cut_one_way",
    "isolate_bookie",
    "isolate_client",
    "crash_client",
    "bit_rot",
    "lose_bookie",  # its disk is gone; a new bookie comes at its address
    "wipe_bookie",  # its operator does, or files vanish, all or some; it is started again
    "metadata_outage",
    "expire_session",
)
"""What the nemesis can do."""
