from pathlib import Path

import msgspec
import pytest

from benchmarks.case import Case
from benchmarks.matrix import cases
from benchmarks.measuring import StepFailedError, run_case
from benchmarks.peer_results import PeerResults, load_peers, peers_table
from benchmarks.report import END, START, MarkersMissingError, put, report, table
from benchmarks.results import CaseResult
from tests.support.bench_lines import PERCENTILES, lines_of

CASES = {case.name: case for case in cases()}
PEER_COST = {"client_cpu_us_per_entry": 20.0, "server_cpu_us_per_entry": 53.4}
PEER = PeerResults(
    rounds=[
        {
            "measured": "redis",
            "version": "7.2",
            "durability": "AOF always",
            "is_fsynced": True,
            "api": "many",
        }
        | {"entry_size": 100}
    ],
    median={"entries_per_s": 55_000.0, "payload_mb_per_s": 5.5} | PERCENTILES | PEER_COST,
)


def measured(*names: str) -> tuple[list[Case], dict[str, CaseResult]]:
    chosen = [CASES[name] for name in names]
    return chosen, {case.name: run_case(case, 2, run=lines_of) for case in chosen}


def test_a_row_has_goal_floor_zbk_ratio_spread_peers_and_command() -> None:
    *_, line = table(*measured("many-pd-100"), [PEER]).splitlines()

    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "`append_many`, PD, 100 B",
        ">= 450 k entries/s, or >= 60% of the floor",
        "2 M/s",
        "1 M/s",
        "50%",
        "1 M/s .. 1 M/s",
        "yes (figure)",
        "redis 55 k/s",
        "`zbk bench write --type pd --size 100 --against-floor --count 1500000 --zookeeper`",
    ]


def test_a_peer_is_shown_only_where_the_same_was_done() -> None:
    assert "redis" not in table(*measured("many-pd-1024"), [PEER])


@pytest.mark.parametrize(
    ("case", "fields"),
    [
        ("ledgers-64", {"api": "async", "ledger_count": 64}),
        ("threads-16", {"api": "sync", "ledger_count": 16}),
        ("processes-16", {"api": "sync", "process_count": 16}),
    ],
)
def test_a_peer_with_as_many_streams_stands_beside_the_row(
    case: str, fields: dict[str, object]
) -> None:
    peer = msgspec.structs.replace(PEER, rounds=[PEER.rounds[0] | fields])
    other = msgspec.structs.replace(PEER, rounds=[peer.rounds[0] | {"ledger_count": 17}])

    assert "| redis 55 k/s |" in table(*measured(case), [peer])
    assert "redis" not in table(*measured(case), [other])


@pytest.mark.parametrize(
    ("fields", "load"),
    [
        ({}, "`many`"),
        (
            {"api": "async", "ledger_count": 1000},
            "`async`, one unanswered in each of 1,000 streams",
        ),
        ({"api": "sync", "ledger_count": 16}, "`sync`, one after another in each of 16 streams"),
        ({"api": "sync", "process_count": 16}, "`sync`, 16 processes"),
    ],
)
def test_the_peers_table_says_the_load_and_what_it_cost(
    fields: dict[str, object], load: str
) -> None:
    peer = msgspec.structs.replace(PEER, rounds=[PEER.rounds[0] | fields])

    *_, line = peers_table([peer]).splitlines()

    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == [
        "redis 7.2",
        "AOF always",
        load,
        "100 B",
        "55 k",
        "6",
        "1.00",
        "3.00",
        "20 + 53 µs",
        "1",
    ]


def test_peers_are_in_the_order_of_their_loads(tmp_path: Path) -> None:
    counts = (1000, 16, 256)
    for count in counts:
        fields = {"api": "async", "ledger_count": count}
        peer = msgspec.structs.replace(PEER, rounds=[PEER.rounds[0] | fields])
        (tmp_path / f"peers-{count}.json").write_bytes(msgspec.json.encode(peer))

    assert [peer.shape.ledger_count for peer in load_peers(tmp_path)] == sorted(counts)


def test_a_case_that_failed_is_in_the_report_with_its_reason() -> None:
    def fail(*_: object) -> list[dict[str, object]]:
        raise StepFailedError("zbk bench tail", "exit code 3: no bookies")

    case = CASES["tail"]

    text = report([case], {"tail": run_case(case, 1, run=fail)}, [], "pictures")

    assert "| **not measured** |" in text
    assert "zbk bench tail: exit code 3: no bookies" in text


def test_a_report_has_the_machine_and_the_pictures_whose_cases_were_measured() -> None:
    chosen, results = measured("load-pd", "load-vd", "length")

    text = report(chosen, results, [PEER], "pictures")

    assert "Rounds: 2, except for `load-pd` (1), `load-vd` (1)." in text
    assert "3 cases on " in text
    assert "AOF always" in text
    assert "](pictures/latency.svg)" in text
    assert "](pictures/by-length.svg)" in text
    assert "by-size.svg" not in text


def test_a_report_replaces_the_one_before_and_leaves_the_page_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{START}\nold\n{END}\n\nThe end.\n")

    put(page, "new")
    put(page, "newer")

    assert page.read_text() == f"# Title\n\n{START}\n\nnewer\n\n{END}\n\nThe end.\n"


def test_a_page_that_is_not_there_is_made_and_one_without_a_place_is_refused(
    tmp_path: Path,
) -> None:
    put(tmp_path / "made.md", "text")
    (tmp_path / "other.md").write_text("no place\n")

    assert "text" in (tmp_path / "made.md").read_text()
    with pytest.raises(MarkersMissingError):
        put(tmp_path / "other.md", "text")


def test_a_folder_without_peers_has_none(tmp_path: Path) -> None:
    assert load_peers(tmp_path) == []
