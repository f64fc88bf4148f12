"""The truncation and the deletion of logs: the list changes first, then the ledgers are deleted.

So the list never names a ledger that was deleted on purpose. If the client dies in between, ledgers
remain that belong to no log.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from zbk.client.log.driver import LedgerClient
from zbk.errors import (
    LogTruncatedError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    ZbkError,
)
from zbk.metadata.records.logs import LogStore
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.owner import FENCED_COUNT
from zbk.protocol.log.position import LogPosition

NAMED_COUNT_MAX: Final = 100
"""The most ledgers that the error of an unfinished deletion names."""


def truncate(client: LedgerClient, store: LogStore, name: str, position: LogPosition) -> int:
    """Delete the ledgers that lie entirely before ``position``; return their number.

    The last ledger stays. So do a ledger that is not closed, because it may have a writer, and
    those after it.

    Raises:
        NoSuchLogError: there is no such log.
        InvalidOptionError: the log has no such ledger.
        MetadataUnavailableError: it may or may not have been truncated.
    """

    def cut(log: LogMetadata) -> LogMetadata:
        with suppress(LogTruncatedError):  # then it begins after the position already
            log.place_of(position)
        count = 0
        for ledger_id in log.ledgers_before(position):
            if ledger_id in log.ledger_ids[-FENCED_COUNT:] and not _is_closed(client, ledger_id):
                break
            count += 1
        return log.without_first(count)

    before, after = store.update(name, cut)
    gone = before.ledger_ids[: after.first_index - before.first_index]
    _delete(client, gone)
    return len(gone)


def delete(client: LedgerClient, store: LogStore, name: str) -> int:
    """Delete a log and its ledgers; return their number.

    Raises:
        NoSuchLogError: there is no such log.
        MetadataUnavailableError: it may or may not have been deleted.
    """
    log = store.delete(name)
    _delete(client, log.ledger_ids)
    return len(log.ledger_ids)


def _is_closed(client: LedgerClient, ledger_id: int) -> bool:
    try:
        return client.get_ledger_metadata(ledger_id).is_closed
    except NoSuchLedgerError:  # deleted by hand: it has no writer
        return True


def _delete(client: LedgerClient, ledger_ids: Sequence[int]) -> None:
    """Delete ledgers that no list names any more; the error names those that are left.

    All are tried, as no later call finds them. A store that does not answer ends that: it would
    delay each of the others.
    """
    left_ids: list[int] = []
    first_error: ZbkError | None = None
    for place, ledger_id in enumerate(ledger_ids):
        try:
            client.delete_ledger(ledger_id)
        except NoSuchLedgerError:
            continue
        except ZbkError as error:
            first_error = first_error or error
            if isinstance(error, MetadataUnavailableError):
                left_ids += ledger_ids[place:]
                break
            left_ids.append(ledger_id)
    if first_error is not None:
        named = ", ".join(map(str, left_ids[:NAMED_COUNT_MAX]))
        more = f" and {len(left_ids) - NAMED_COUNT_MAX} more" * (len(left_ids) > NAMED_COUNT_MAX)
        first_error.add_note(
            f"zbk: the log has no longer these ledgers, which are not deleted yet: {named}{more}; "
            "delete each with `zbk ledger delete`"
        )
        raise first_error
