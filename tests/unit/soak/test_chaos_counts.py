"""The counts of a chaos round: what was checked of each type of ledgers."""

from tests.chaos.rounds import counts_of
from tests.support.history import History
from tests.support.ledgers import metadata_maker
from zbk.protocol.entry.words import LedgerType


def test_entries_are_counted_by_the_type_of_their_ledger() -> None:
    history = History()
    for ledger_id, ledger_type in enumerate(LedgerType):
        metadata = metadata_maker(ledger_type=ledger_type)(ledger_id)
        history.metadata_changed(0, 0, metadata)
        for number in range(ledger_id + 1):
            begun = history.invoke(0, "w", "add", ledger_id=ledger_id, value_hash="v")
            history.end(begun, 0, "ok", entry_id=number)
        begun = history.invoke(0, "r", "read", ledger_id=ledger_id)
        history.end(begun, 0, "ok", entry_id=0, value_hash="v")
    begun = history.invoke(0, "w", "add", ledger_id=0, value_hash="v")
    history.end(begun, 0, "info", error="RequestTimeoutError")

    counts = counts_of(history)

    for number, ledger_type in enumerate(LedgerType):
        assert counts[f"adds acknowledged, {ledger_type.value}"] == number + 1
        assert counts[f"entries read, {ledger_type.value}"] == 1
    assert (counts["adds acknowledged"], counts["entries read"]) == (6, 3)
    assert counts["adds of unknown outcome"] == 1
