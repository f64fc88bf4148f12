"""The close of many ledgers at the same time."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from zbk.client.write.ledger_writer import LedgerWriter
from zbk.errors import ZbkError
from zbk.system.clock import monotonic_s

NAMED_COUNT_MAX: Final = 10
"""The most ledgers that the error of ``close_all`` names."""


def close_all(writers: Sequence[LedgerWriter], timeout_s: float) -> list[int]:
    """Close ledgers at the same time, as ``Client.close_all``."""
    deadline_s = monotonic_s() + timeout_s
    failed: dict[int, ZbkError] = {}
    begun: list[tuple[LedgerWriter, Future[int]]] = []
    for writer in writers:
        try:
            future = writer._begin_close(timeout_s)  # noqa: SLF001 - of the same package
        except ZbkError as error:
            failed[writer.ledger_id] = error
        else:
            begun.append((writer, future))
    last_entry_ids: list[int] = []
    for writer, future in begun:
        try:
            end = writer._finish_close(future, deadline_s, timeout_s)  # noqa: SLF001 - as above
            last_entry_ids.append(end)
        except ZbkError as error:
            failed[writer.ledger_id] = error
    if failed:
        (_ledger_id, first), *others = sorted(failed.items())
        if others:
            named = ", ".join(str(ledger_id) for ledger_id, _error in others[:NAMED_COUNT_MAX])
            more = f" and {len(others) - NAMED_COUNT_MAX} more" * (len(others) > NAMED_COUNT_MAX)
            first.add_note(
                f"zbk: of {len(writers)} ledgers these are not closed either: {named}{more}"
            )
        raise first
    return last_entry_ids
