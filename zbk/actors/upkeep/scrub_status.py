"""The answer of a bookie about its scrubber."""

from typing import Final

from zbk.actors.upkeep.scrub import ScrubActor
from zbk.wire.messages import ScrubStatus

SHOWN_FILE_COUNT: Final = 40
SHOWN_RANGE_COUNT: Final = 500
"""They fit into one message; the bookie's log has the rest."""

_TEXT_LENGTH_MAX: Final = 256


def scrub_status(
    scrubber: ScrubActor, *, request_id: int, incarnation: int, awaited_pass: int
) -> ScrubStatus:
    """Return the progress of the pass under way, or the result of the last one. Any thread."""
    counts, findings = scrubber.counts, scrubber.findings
    return ScrubStatus(
        request_id=request_id,
        incarnation=incarnation,
        awaited_pass=awaited_pass,
        begun_pass=counts.begun_pass,
        ended_pass=counts.ended_pass,
        share=counts.share,
        read_size=counts.read_size,
        file_count=findings.file_count,
        ledger_count=findings.ledger_count,
        entry_count=findings.entry_count,
        unconfirmed_count=counts.unconfirmed_count,
        unreported_count=scrubber.queue.pending_count,
        files=[
            (
                one.path[-_TEXT_LENGTH_MAX:],
                one.offset,
                one.ledger_id,
                one.reason[:_TEXT_LENGTH_MAX],
            )
            for one in findings.files[:SHOWN_FILE_COUNT]
        ],
        ranges=[
            (one.ledger_id, one.first_entry_id, one.last_entry_id)
            for one in findings.ranges[:SHOWN_RANGE_COUNT]
        ],
    )
