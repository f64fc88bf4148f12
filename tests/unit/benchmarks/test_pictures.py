from pathlib import Path

import pytest

from benchmarks.matrix import cases
from benchmarks.measuring import run_case
from benchmarks.peer_results import PeerResults
from benchmarks.pictures import PICTURES, Results, draw_all
from tests.support.bench_lines import lines_of


@pytest.fixture(scope="module")
def results() -> Results:
    return {case.name: run_case(case, 2, run=lines_of) for case in cases()}


@pytest.fixture(scope="module")
def first(results: Results, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return all pictures, drawn once."""
    return draw_all(results, tmp_path_factory.mktemp("pictures") / "first")


def test_every_picture_is_drawn_and_the_same_results_give_the_same_bytes(
    results: Results, first: list[Path], tmp_path: Path
) -> None:
    second = draw_all(results, tmp_path / "second")

    assert [path.name for path in first] == [f"{picture.name}.svg" for picture in PICTURES]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_peers_are_drawn_beside_the_same_loads(
    results: Results, first: list[Path], tmp_path: Path
) -> None:
    def peer(**fields: object) -> PeerResults:
        return PeerResults(
            rounds=[{"measured": "redis", "entry_size": 100, **fields}],
            median={"entries_per_s": 1_000.0},
        )

    peers = [peer(api="async", ledger_count=16), peer(api="sync", process_count=16)]

    bare = {path.name: path.read_bytes() for path in first}
    drawn = {path.name: path.read_bytes() for path in draw_all(results, tmp_path / "peers", peers)}

    changed = {name for name, data in drawn.items() if data != bare[name]}
    assert changed == {"by-ledgers.svg", "by-processes.svg"}


def test_the_fastest_peer_is_within_the_picture(results: Results) -> None:
    picture = next(one for one in PICTURES if one.name == "by-ledgers")
    fast = PeerResults(
        rounds=[{"measured": "redis", "entry_size": 100, "api": "async", "ledger_count": 16}],
        median={"entries_per_s": 1e9},
    )
    figure = picture.draw(results)
    assert picture.add_peers is not None

    picture.add_peers(figure, [fast])

    assert figure.axes[0].get_ylim()[0] == 0
    assert figure.axes[0].get_ylim()[1] >= 1e9


def test_a_picture_whose_case_was_not_measured_is_left_out(
    results: Results, tmp_path: Path
) -> None:
    some = {name: result for name, result in results.items() if name != "load-vd"}

    drawn = draw_all(some, tmp_path)

    assert "latency.svg" not in {path.name for path in drawn}
    assert len(drawn) == len(PICTURES) - 1
