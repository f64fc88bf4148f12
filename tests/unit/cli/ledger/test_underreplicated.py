"""When `zbk ledger underreplicated --watch` ends: scripts take down the next bookie after it."""

from collections.abc import Iterator

import pytest

from tests.support.memory_store import MemoryTree
from zbk.cli.ledger import check
from zbk.metadata.paths import AUDITOR_LEADER
from zbk.metadata.records.auditor_notes import AuditorNotes
from zbk.metadata.records.autorecovery_switches import AutorecoverySwitches
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import initialise
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.store import MetadataStore
from zbk.metadata.values import AuditorStatus, AuditorVote, Cookie, encode


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetadataStore]:
    """A cluster whose only bookie is lost, together with its auditor."""
    monkeypatch.setattr(check, "WATCH_S", 0.0)
    made = MemoryTree().open_session()
    instance = initialise(made)
    cookie = Cookie(
        bookie_id="b-1", instance_id=instance, journal_dirs=("/j",), ledger_dirs=("/l",),
        created_ms=0,
    )  # fmt: skip
    BookieRegistry(made).create_cookie(cookie)
    yield made
    made.close()


def test_it_goes_on_until_the_next_auditor_has_counted(
    store: MetadataStore, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = check._counts(store, UnderreplicationStore(store))
    for _look in range(3):
        assert next(rows)["lost_bookies"] == 1

    assert capsys.readouterr().err.count("no process audits") == 1
    vote = AuditorVote(candidate_id="host-9", token="t", elected_ms=0)
    store.create(AUDITOR_LEADER, encode(vote), is_ephemeral=True)
    assert next(rows)["waiting"] == 0
    AuditorNotes(store).tell(AuditorStatus(candidate_id="host-9", told_ms=1, lost=("b-1",)))
    assert len(list(rows)) == 1


def test_it_ends_without_an_auditor_where_nothing_is_audited(store: MetadataStore) -> None:
    AutorecoverySwitches(store).disable()
    assert len(list(check._counts(store, UnderreplicationStore(store)))) == 1
