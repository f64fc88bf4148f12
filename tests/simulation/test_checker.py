"""The checker sees each kind of broken promise in a history, and none in a good one."""

from pathlib import Path

from tests.support.checker import check
from tests.support.history import POWER_LOSS, History
from zbk.protocol.entry.words import DigestType, LedgerState, LedgerType
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata

L = 3
PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL


class Told(History):
    """A history in short words; time is the index."""

    def __init__(self, ledger_type: LedgerType = PD) -> None:
        super().__init__()
        self.type = ledger_type
        self.version = -1

    def say(self, process: str, call: str, kind: str = "ok", **end: object) -> None:
        begin = {key: end.pop(key) for key in ("value_hash", "log") if key in end}
        ledger_id = end.pop("ledger_id", L)
        begun = self.invoke(0, process, call, ledger_id=ledger_id, **begin)  # type: ignore[arg-type]
        if kind != "invoke":
            self.end(begun, 0, kind, **end)  # type: ignore[arg-type]

    def add(self, entry_id: int, kind: str = "ok", process: str = "w") -> None:
        where = {"entry_id": entry_id} if kind == "ok" else {}
        self.say(process, "add", kind, value_hash=f"v{entry_id}", **where)

    def metadata_is(
        self,
        state: LedgerState = LedgerState.OPEN,
        last_entry_id: int | None = None,
        fragments: tuple[Fragment, ...] = (Fragment(0, ("a", "b", "c")),),
    ) -> None:
        self.version += 1
        metadata = LedgerMetadata(
            ledger_id=L,
            ensemble_size=3,
            write_quorum_size=3,
            ack_quorum_size=2,
            ledger_type=self.type,
            digest_type=DigestType.XXH3,
            password_digest=b"",
            fragments=fragments,
            created_ms=0,
            creation_token="t",
            state=state,
            last_entry_id=last_entry_id,
            length=None if last_entry_id is None else 0,
        )
        self.metadata_changed(0, self.version, metadata)

    def closed_at(self, last_entry_id: int) -> None:
        self.metadata_is(LedgerState.CLOSED, last_entry_id)

    def names(self) -> set[str]:
        self.metadata.is_complete = True
        return {violation.invariant for violation in check(self)}


def written(count: int, ledger_type: LedgerType = PD) -> Told:
    """Return a history of a ledger with so many acknowledged entries."""
    told = Told(ledger_type)
    told.metadata_is()
    for entry_id in range(count):
        told.add(entry_id)
    return told


def test_a_good_history_breaks_nothing() -> None:
    told = written(2)
    told.add(2, "info")
    told.metadata_is(LedgerState.IN_RECOVERY)
    told.closed_at(2)  # the one in doubt is in it
    told.say("r", "recover", result=2)
    told.say("r", "read", entry_id=2, value_hash="v2")

    assert told.names() == set()


def test_a_history_survives_being_written_down(tmp_path: Path) -> None:
    told = written(2)
    told.closed_at(0)
    told.write(tmp_path / "history.jsonl")

    again = History.read(tmp_path / "history.jsonl")

    assert [str(v) for v in check(again)] == [str(v) for v in check(told)] != []


def test_an_acknowledged_entry_behind_the_end_is_seen() -> None:
    told = written(2)
    told.metadata_is(LedgerState.IN_RECOVERY)
    told.closed_at(0)
    told.say("r", "recover", result=0)

    assert told.names() == {"I16", "I9"}
    story = "\n".join(map(str, check(told)))
    assert "entry 1 was acknowledged" in story
    assert "v1 IN_RECOVERY" in story


def test_an_entry_that_is_gone_is_seen() -> None:
    told = written(1)
    told.say("r", "read", entry_id=0, value_hash="v0")
    told.say("r", "read", "fail", entry_id=0, error="NoSuchEntryError")

    assert told.names() == {"I1", "I8"}


def test_an_entry_of_a_ledger_that_is_being_deleted_may_be_gone() -> None:
    told = written(1)
    told.say("r", "read", entry_id=0, value_hash="v0")
    told.say("d", "delete", "invoke")
    told.say("r", "read", "fail", entry_id=0, error="NoSuchEntryError")

    assert told.names() == set()


def test_another_value_and_one_that_nobody_added_are_seen() -> None:
    told = written(2)
    told.say("r", "read", entry_id=0, value_hash="v1")
    told.say("r", "read", entry_id=1, value_hash="made up")

    assert told.names() >= {"I1", "I4"}


def test_acks_out_of_order_are_seen() -> None:
    told = Told()
    told.metadata_is()
    told.add(1)

    assert told.names() == {"I5"}


def test_a_lac_that_goes_back_is_seen() -> None:
    told = written(3)
    told.say("r", "read_lac", result=2)
    told.say("r", "read_lac", result=1)

    assert told.names() == {"I6"}


def test_a_ledger_that_changes_after_its_end_is_seen() -> None:
    told = written(1)
    told.closed_at(0)
    told.closed_at(1)
    told.metadata_is()

    assert told.names() >= {"I11", "I12"}


def test_a_fragment_over_acknowledged_entries_is_seen() -> None:
    told = written(3)
    told.metadata_is(fragments=(Fragment(0, ("a", "b", "c")), Fragment(1, ("a", "b", "d"))))

    assert told.names() == {"I13"}


def test_a_fragment_that_is_cut_where_nothing_moves_is_no_break() -> None:
    told = Told()
    told.metadata_is()
    a, b = Fragment(0, ("a", "b", "c")), Fragment(2, ("a", "b", "c"))
    told.metadata_is(LedgerState.CLOSED, 4, (a,))
    told.metadata_is(LedgerState.CLOSED, 4, (a, b))
    assert check(told) == []

    told.metadata_is(LedgerState.CLOSED, 4, (a, b, Fragment(3, ("a", "b", "d"))))
    assert [violation.invariant for violation in check(told)] == ["I13"]


def test_a_close_that_did_not_close_is_seen() -> None:
    told = written(1)
    told.say("w", "close", result=0)

    assert told.names() == {"I14"}


def test_recoveries_that_disagree_are_seen() -> None:
    told = written(1)
    told.metadata_is(LedgerState.IN_RECOVERY)
    told.closed_at(0)
    told.say("r", "recover", result=0)
    told.say("s", "recover", result=1)

    assert "I15" in told.names()


def test_a_sync_that_covers_too_little_is_seen() -> None:
    told = written(2, VD)
    told.say("w", "sync", result=0)

    assert told.names() == {"I17"}


def test_what_a_vd_ledger_may_lose_depends_on_the_power() -> None:
    def history(*faults: str) -> Told:
        told = written(2, VD)
        for fault in faults:
            told.nemesis(0, "a", fault)
        told.metadata_is(LedgerState.IN_RECOVERY)
        told.closed_at(0)
        told.say("r", "recover", result=0)
        return told

    assert history("crash").names() == {"I20"}
    assert history(POWER_LOSS).names() == set()


def test_an_ensemble_change_of_a_vd_ledger_is_judged_by_what_was_reported() -> None:
    told = written(2, VD)
    told.metadata_is(fragments=(Fragment(0, ("a", "b", "d")),))
    assert not told.names(), "nobody was told that its entries are durable"

    for call in ("sync", "read_lac", "open"):
        told = written(2, VD)
        told.say("other", call, result=0)
        told.metadata_is(fragments=(Fragment(0, ("a", "b", "d")),))
        assert "I13" in told.names(), "entry 0 stays with the bookies that have synced it"

        told = written(2, VD)
        told.say("other", call, result=0)
        first = Fragment(0, ("a", "b", "c"))
        told.metadata_is(fragments=(first, Fragment(1, ("a", "b", "d"))))
        assert not told.names()


def test_an_id_given_out_twice_is_seen() -> None:
    told = Told()
    for name in ("w", "x"):
        told.say(name, "create", ledger_id=9)

    assert told.names() == {"I31"}


def test_a_log_that_is_no_sequence_is_seen() -> None:
    told = Told()
    told.log_changed(0, "log", 0, [1])
    told.say("o", "log_append", value_hash="a", log="log", ledger_id=1, entry_id=5)
    told.log_changed(0, "log", 1, [1, 2])
    told.say("p", "log_append", value_hash="b", log="log", ledger_id=2, entry_id=0)
    told.say("o", "log_append", value_hash="c", log="log", ledger_id=1, entry_id=6)

    assert told.names() == {"I34"}


def test_an_append_to_a_ledger_that_is_not_listed_is_seen() -> None:
    told = Told()
    told.log_changed(0, "log", 0, [1])
    told.say("o", "log_append", value_hash="a", log="log", ledger_id=2, entry_id=0)

    assert told.names() == {"I34"}


def test_a_reader_of_a_log_that_misses_an_entry_is_seen() -> None:
    told = Told()
    told.log_changed(0, "log", 0, [1])
    for entry_id in range(3):
        told.say(
            "o", "log_append", value_hash=f"{entry_id}", log="log", ledger_id=1, entry_id=entry_id
        )
    for entry_id in (0, 2):
        told.say(
            "r", "log_read", value_hash=f"{entry_id}", log="log", ledger_id=1, entry_id=entry_id
        )

    assert told.names() == {"I34"}


def volatile_log_with_a_gap() -> Told:
    """Return a history of a log on a VD ledger: the power was lost, and entry 1 is not read."""
    told = Told(VD)
    told.metadata_is()
    told.log_changed(0, "log", 0, [L])
    for entry_id in range(3):
        told.say("o", "log_append", value_hash=f"{entry_id}", log="log", entry_id=entry_id)
    told.nemesis(0, "a", POWER_LOSS)
    return told


def read_around_the_gap(told: Told) -> None:
    for entry_id in (0, 2):
        told.say("r", "log_read", value_hash=f"{entry_id}", log="log", entry_id=entry_id)


def test_a_vd_log_may_lose_with_the_page_caches_what_was_not_synced() -> None:
    told = volatile_log_with_a_gap()
    read_around_the_gap(told)

    assert "I34" not in told.names()


def test_a_vd_log_that_loses_what_was_synced_is_seen() -> None:
    told = volatile_log_with_a_gap()
    told.say("o", "sync", result=2)
    read_around_the_gap(told)

    assert "I34" in told.names()


def test_an_owner_that_goes_on_in_the_next_ledger_has_synced_the_one_before() -> None:
    told = volatile_log_with_a_gap()
    told.log_changed(0, "log", 1, [L, L + 1])
    told.say("o", "log_append", value_hash="n", log="log", ledger_id=L + 1, entry_id=0)
    read_around_the_gap(told)

    assert "I34" in told.names()
