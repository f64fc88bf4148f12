"""BookiePlacer: bookies that failed lately come last, or not at all."""

from typing import cast

from zbk.client.cluster.directory import BookieDirectory
from zbk.client.cluster.placer import BookiePlacer
from zbk.protocol.ledger.placement import Candidate, RandomPlacement


class Directory:
    """Four bookies that take new entries."""

    def wait_for_writable(self, count: int, timeout_s: float) -> list[str]:
        return [one.bookie_id for one in self.candidates()]

    def writable(self) -> frozenset[str]:
        return frozenset(one.bookie_id for one in self.candidates())

    def candidates(self) -> list[Candidate]:
        return [Candidate(bookie_id) for bookie_id in ("a", "b", "c", "d")]


def make_placer() -> BookiePlacer:
    return BookiePlacer(cast("BookieDirectory", Directory()), RandomPlacement(), 60_000)


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
