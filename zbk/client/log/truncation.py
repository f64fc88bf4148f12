"""Making logs shorter, and removing them: the list first, then the ledgers.

So the list never names a ledger that was deleted on purpose; when we die between the two, ledgers
are left that belong to no log.
"""

from contextlib import suppress

from zbk.client.log.driver import LedgerClient
from zbk.errors import LogTruncatedError, NoSuchLedgerError
from zbk.metadata.records.logs import LogStore
from zbk.protocol.log.metadata import LogMetadata
from zbk.protocol.log.owner import FENCED_COUNT
from zbk.protocol.log.position import LogPosition


def truncate(client: LedgerClient, store: LogStore, name: str, position: LogPosition) -> int:
    """Cut off the ledgers that lie before ``position`` as a whole; return how many they were.

    The last ledger stays; so do one that is not closed, for its writer may be at work, and those
    behind it.

    Raises:
        NoSuchLogError: there is no such log.
        InvalidOptionError: the log has no such ledger.
        MetadataUnavailableError: it may or may not have been truncated.
    """

    def cut(log: LogMetadata) -> LogMetadata:
        with suppress(LogTruncatedError):  # then it begins behind the position already
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
    """Remove a log and its ledgers; return how many they were.

    Raises:
        NoSuchLogError: there is no such log.
        MetadataUnavailableError: it may or may not have been removed.
    """
    log = store.delete(name)
    _delete(client, log.ledger_ids)
    return len(log.ledger_ids)


def _is_closed(client: LedgerClient, ledger_id: int) -> bool:
    try:
        return client.get_ledger_metadata(ledger_id).is_closed
    except NoSuchLedgerError:  # deleted by hand: nobody writes it
        return True


def _delete(client: LedgerClient, ledger_ids: tuple[int, ...]) -> None:
    for ledger_id in ledger_ids:
        with suppress(NoSuchLedgerError):
            client.delete_ledger(ledger_id)
