"""The limits of one writer."""

import msgspec

from zbk.protocol.entry.entry_batch import MESSAGE_SIZE_MIN
from zbk.protocol.ledger.quorum import Quorum


class WriterLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a writer's memory and of its waits.

    At the limits of window and backlog appends wait in the queue, whose size the caller limits. A
    single batch may exceed them and ``batch_size_max``, because an entry is never cut. The memory
    is at most ``backlog_size``, on a VD ledger ``unsynced_size_max`` more, and one batch
    (``of_batch``).
    """

    window_size: int = 16 * 1024 * 1024  # bytes of batches that are not acknowledged
    window_count: int = 16  # such batches
    backlog_size: int = 32 * 1024 * 1024  # with those that some live bookie has not answered
    backlog_count: int = 4_096  # such batches
    batch_size_max: int = 512 * 1024  # bytes of encoded entries in one message
    batch_count_max: int = 4096  # entries in one message
    quorum_grace_ms: int = 5_000  # how long bookies that are needed may be down
    close_linger_ms: int = 2_000  # how long close waits for bookies beyond the ack quorum
    unsynced_size_max: int = 64 * 1024 * 1024  # bytes of acknowledged batches beyond the LAC
    unsynced_batch_count_max: int = 65_536  # such batches
    sync_count_max: int = 4_096  # syncs that wait; one more fails with BusyError
    durable_count_max: int = 1_048_576  # calls that wait for entries to be durable; as above
    ensemble_change_count_max: int = 100  # in the life of a writer; one more ends it
    ensemble_retry_ms: int = 1_000  # pause after a change that found no bookie, or no metadata
    catch_up_retry_ms_max: int = 8_000  # it grows up to this where a try may cost a catch-up
    metadata_grace_ms: int = 20_000  # how long a change waits for the metadata store
    slow_bookie_ms: int = 2_000  # a slot that alone holds up the writer so long is replaced
    explicit_lac_ms: int = 100  # how long a writer is idle before it sends its LAC; 0: never
    explicit_lac_count_max: int = 3  # times that the same LAC is sent to one slot

    def of_batch(self, quorum: Quorum) -> tuple[int, int]:
        """Return the limits of a batch, in bytes and entries, whose messages are to be full.

        A batch of a striped ledger is cut into messages that have Qw / E of it each if its entries
        have one size. They may have different sizes, so it is at most twice as large as a message,
        and its bytes fit into the largest message that every bookie takes.

        >>> limits = WriterLimits(batch_size_max=1_000_000, batch_count_max=3_000)
        >>> limits.of_batch(Quorum(3, 3, 2)), limits.of_batch(Quorum(5, 3, 2))
        ((1000000, 3000), (1666666, 5000))
        """
        share = max(quorum.write_size / quorum.ensemble_size, 0.5)
        size_max = min(int(self.batch_size_max / share), MESSAGE_SIZE_MIN)
        return max(self.batch_size_max, size_max), int(self.batch_count_max / share)
