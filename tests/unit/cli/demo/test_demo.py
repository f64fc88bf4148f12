"""How `zbk demo` shows its story."""

import json
from pathlib import Path

import pytest

from tests.support.cli import Run
from zbk.cli.demo.demo import show
from zbk.cluster.demo import (
    BookieKilled,
    BookieRestarted,
    ClusterStarted,
    InputRead,
    LedgerLoaded,
    LedgerSynced,
    ReadBack,
    Step,
)
from zbk.cluster.demo_failures import (
    BookieReplaced,
    Compared,
    FragmentShown,
    KilledWhileWriting,
    TakenOver,
)
from zbk.cluster.demo_repair import LostForGood, MadeWhole, QueueLength, SecondLost
from zbk.cluster.load import Loaded
from zbk.cluster.local import LocalBookie
from zbk.protocol.entry.words import LedgerType

PD, VD = LedgerType.PD_JOURNAL, LedgerType.VD_JOURNAL
LOADED = Loaded(
    entry_count=1_000_000,
    payload_size=50_000_000,
    first_entry_id=0,
    last_entry_id=999_999,
    seconds=2.0,
    latencies_s=[0.001, 0.002, 0.1],
)
STORY: list[Step] = [
    ClusterStarted(
        "sqlite:///x",
        [
            LocalBookie(
                index=0,
                bookie_id="b-0",
                pid=7,
                address="tcp://127.0.0.1:1",
                incarnation=1,
                folder=Path("/f"),
            )
        ],
        0.5,
    ),
    InputRead("every line of x", 1_000_000, 50_000_000, "ab" * 16),
    LedgerLoaded(0, PD, LOADED, 999_999, 999_999),
    LedgerLoaded(1, VD, LOADED, 999_999, 400_000),
    LedgerSynced(1, 999_999, 500_000, 999_999, 0.025),
    BookieKilled(1, "b-1"),
    BookieRestarted(1, "b-1", 2, 1.5),
]


def read_back(ledger_type: LedgerType, difference: str = "") -> ReadBack:
    return ReadBack(0, ledger_type, 2, 1_000_000, 1.0, "ab" * 16, difference)


def test_a_story_that_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert show([*STORY, read_back(PD), read_back(VD)], "sqlite", "table")

    text = capsys.readouterr().out
    assert "1,000,000 entries in 2.0 s: 500 k/s, 25.0 MB/s" in text
    assert "3 batches, acknowledged after ms: p50 2.0, p95 100.0" in text
    assert "confirmed 500,000:\n      499,999 entries could be lost with the power" in text
    assert "confirmed 999,999:\n      all durable, 25 ms later" in text
    assert "All 2,000,000 entries read back are what was written." in text


def test_the_acts_in_which_somebody_dies(capsys: pytest.CaptureFixture[str]) -> None:
    acts: list[Step] = [
        KilledWhileWriting(2, 3, "b-3", 9_800, 4, 9_900),
        BookieReplaced(
            2,
            PD,
            0.012,
            [FragmentShown(0, 10_099, [3, 0, 1]), FragmentShown(10_100, 20_399, [2, 0, 1])],
        ),
        Compared(2, 20_400, ""),
        BookieReplaced(4, VD, 0.034, [FragmentShown(0, 20_399, [2, 0, 1])]),
        Compared(4, 20_400, ""),
        TakenOver(3, 9_000, 9_600, "ledger 3 was fenced", 0.034),
        Compared(3, 9_600, ""),
    ]

    assert show([*STORY, read_back(PD), *acts], "sqlite", "table")

    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "A bookie dies while ledgers 2 (PD) and 4 (VD) are written" in text
    assert "kill -9 of bookie 3 after 9,800 and 9,900 acknowledged entries" in text
    assert "PD_JOURNAL ledger 2: another bookie took its place after 12 ms" in text
    assert "VD_JOURNAL ledger 4: another bookie took its place after 34 ms" in text
    assert "entries 0 to 10,099 are on bookies 3 0 1" in text
    assert "entries 10,100 to 20,399 are on bookies 2 0 1" in text
    assert "its first writer got:\n      ledger 3 was fenced" in text
    assert "9,000 entries were acknowledged to it, 9,600 are in the ledger" in text
    assert "All 1,050,400 entries read back are what was written." in text


def test_the_act_in_which_autorecovery_repairs(capsys: pytest.CaptureFixture[str]) -> None:
    acts: list[Step] = [
        LostForGood(3, "b-3", 2),
        QueueLength(2, 5.0),
        QueueLength(1, 6.25),
        QueueLength(0, 7.5),
        MadeWhole(2, [0, 1, 2], 7.5),
        SecondLost(0, "b-0"),
        ReadBack(0, PD, None, 1_000_000, 1.0, "ab" * 16, ""),
    ]

    assert show([*STORY, read_back(PD), *acts], "sqlite", "table")

    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "9  Bookie 3 stays dead; autorecovery is started" in text
    assert "2 ledgers have data there" in text
    assert "6.2 s  ledgers to repair: 1" in text
    assert "all 2 have all of their copies again, on bookies 0 1 2, after 7.5 s" in text
    assert "10  kill -9 of bookie 0, too" in text
    assert "All 2,000,000 entries read back are what was written." in text


def test_an_acknowledged_entry_that_is_missing_ends_the_story_badly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = Compared(3, 9_000, "9,600 entries were acknowledged, it ends after 9,000")

    assert not show([*STORY, read_back(PD), missing], "sqlite", "table")

    captured = capsys.readouterr()
    assert "9,000 entries, DIFFERENT: 9,600 entries were acknowledged" in captured.out
    assert captured.err == "zbk: what was read back is NOT what was written\n"


def test_a_story_that_does_not_end_well(capsys: pytest.CaptureFixture[str]) -> None:
    bad = read_back(VD, "entry 7 is b'x', the input has b'y'")

    assert not show([*STORY, read_back(PD), bad], "zookeeper", "table")

    captured = capsys.readouterr()
    assert "DIFFERENT: entry 7 is b'x'" in captured.out
    assert "are what was written" not in captured.out
    assert captured.err == "zbk: what was read back is NOT what was written\n"


def test_a_story_without_a_comparison_proves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert not show(STORY, "sqlite", "json")

    assert json.loads(capsys.readouterr().out)["is_same"] is False


def test_a_story_in_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert show([*STORY, read_back(PD)], "sqlite", "json")

    report = json.loads(capsys.readouterr().out)
    assert report["is_same"] is True
    loaded = report["steps"][2]
    assert loaded["entries_per_s"] == 500_000
    assert loaded["batch_latency"]["p50_ms"] == 2.0
    assert "latencies_s" not in loaded


def test_a_file_that_is_not_there_is_a_mistake_of_use(run: Run) -> None:
    assert run("demo", "no-such-file").exit_code == 2
