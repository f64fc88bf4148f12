"""BookiePlacer: bookies that failed lately come last, or not at all."""

from typing import cast

import pytest

from zbk.client.cluster.directory import BookieDirectory
from zbk.client.cluster.placer import BookiePlacer
from zbk.errors import NotEnoughBookiesError, OldBookiesError
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.features import BYPASS, FEATURES, needs_of_kind
from zbk.protocol.ledger.placement import Candidate, RandomPlacement


class Directory:
    """Four bookies that take new entries."""

    def wait_for_writable(self, count: int, timeout_s: float) -> list[str]:
        return [one.bookie_id for one in self.candidates()]

    def __init__(self, new: str = "") -> None:
        self._new = new  # those that announce features

    def candidates(self) -> list[Candidate]:
        features = frozenset(FEATURES)
        return [
            Candidate(bookie_id, features=features if bookie_id in self._new else frozenset())
            for bookie_id in ("a", "b", "c", "d")
        ]

    def racks(self) -> dict[str, str]:
        return {}


def make_placer(new: str = "") -> BookiePlacer:
    return BookiePlacer(cast("BookieDirectory", Directory(new)), RandomPlacement(), 60_000)


def test_a_new_ensemble_takes_failed_bookies_only_if_it_must() -> None:
    placer = make_placer()
    placer.note_failed(["c"])

    assert set(placer.new_ensemble(3, 0)) == {"a", "b", "d"}
    assert set(placer.new_ensemble(4, 0)) == {"a", "b", "c", "d"}


def test_a_replacement_that_is_not_urgent_has_not_failed_lately() -> None:
    placer = make_placer()
    placer.note_failed(["b", "d"])

    assert placer.replacements(("a", "b", "c"), [1], may_avoided=False) == {}
    assert placer.replacements(("a", "b", "c"), [1]) == {1: "d"}


def test_chance_decides_among_bookies_that_are_as_good() -> None:
    placer = make_placer()

    assert {placer.new_ensemble(1, 0) for _choice in range(200)} == {("a",), ("b",), ("c",), ("d",)}


def test_a_bookie_is_writable_while_the_directory_has_it() -> None:
    placer = make_placer()
    placer.note_failed(["a"])

    assert placer.is_writable("a"), "it is registered, though it has failed"
    assert not placer.is_writable("z")


BYPASS_NEEDS = needs_of_kind(LedgerType.VD_BYPASS_JOURNAL, 3)


def test_a_ledger_goes_to_bookies_that_know_its_kind() -> None:
    placer = make_placer("bcd")

    assert set(placer.new_ensemble(3, 0, BYPASS_NEEDS)) == {"b", "c", "d"}
    assert placer.replacements(("b", "c"), [1], needs=BYPASS_NEEDS) == {1: "d"}
    assert placer.replacements(("b", "c", "d"), [1], needs=BYPASS_NEEDS) == {}
    assert placer.replacements(("b", "c", "d"), [1]) == {1: "a"}
    assert placer.is_writable("a")
    assert not placer.is_writable("a", BYPASS_NEEDS)
    assert placer.lacking(BYPASS_NEEDS) == "a"
    assert placer.lacking(()) == ""


def test_too_few_of_them_is_an_error_that_names_the_others() -> None:
    placer = make_placer("bc")

    with pytest.raises(OldBookiesError, match="upgrade a, d, which") as found:
        placer.new_ensemble(3, 0, BYPASS_NEEDS)
    assert (found.value.needed_count, found.value.able_count) == (3, 2)
    assert BYPASS in found.value.needs
    with pytest.raises(NotEnoughBookiesError):
        placer.new_ensemble(5, 0, BYPASS_NEEDS)
    assert len(placer.new_ensemble(4, 0)) == 4


@pytest.mark.parametrize(
    ("ledger_type", "format_version", "needs"),
    [
        (LedgerType.PD_JOURNAL, 1, set()),
        (LedgerType.PD_JOURNAL, 2, set()),
        (LedgerType.PD_JOURNAL, 4, {"metadata-4"}),
        (LedgerType.VD_JOURNAL, 3, {"metadata-3"}),
        (LedgerType.VD_BYPASS_JOURNAL, 3, {"metadata-3", "vd-bypass"}),
    ],
)
def test_needs_follow_from_type_and_format(
    ledger_type: LedgerType, format_version: int, needs: set[str]
) -> None:
    assert needs_of_kind(ledger_type, format_version) == needs
    assert needs.issubset(FEATURES)
    is_volatile = ledger_type.is_volatile
    striped = needs_of_kind(ledger_type, format_version, is_striped=True)
    assert striped == needs | ({"vd-striped"} if is_volatile else set())
    assert striped.issubset(FEATURES)
