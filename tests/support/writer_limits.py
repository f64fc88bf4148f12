"""Limits of a writer that a test reaches within a few steps."""

from zbk.protocol.write.limits import WriterLimits

LIMITS = WriterLimits(
    window_size=1_000,
    window_count=4,
    backlog_size=1_500,
    backlog_count=6,
    batch_size_max=300,
    batch_count_max=5,
    quorum_grace_ms=1_000,
    close_linger_ms=500,
    unsynced_size_max=1_200,
    unsynced_batch_count_max=24,
    sync_count_max=4,
    ensemble_change_count_max=12,
    ensemble_retry_ms=200,
    metadata_grace_ms=3_000,
    slow_bookie_ms=600,
)
PAYLOAD_SIZE_MAX = 150
