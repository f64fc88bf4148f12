"""`zbk bookie scrub`: begins, waits, shows, and says with its exit code what was found."""

import json

import pytest

from tests.support.cli import Run
from tests.support.fake_client import BOOKIES, FakeClient
from zbk.errors import EXIT_CALLER, EXIT_DAMAGE, EXIT_UNAVAILABLE, BookieUnavailableError
from zbk.wire.messages import ScrubStatus

FIRST, DAMAGED, _ = BOOKIES


def test_without_waiting_it_begins_and_says_how_to_look_later(run: Run, client: FakeClient) -> None:
    done = run("bookie", "scrub", DAMAGED, "-o", "json")

    assert (done.exit_code, client.scrubbed) == (0, [(DAMAGED, True)])
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"bookie_id": DAMAGED, "pass": 2}
    ]
    assert "--status" in done.stderr


def test_a_healthy_bookie_is_told_in_one_row(run: Run) -> None:
    done = run("bookie", "scrub", FIRST, "--wait")

    assert done.exit_code == 0
    head, row = done.stdout.splitlines()
    assert dict(zip(head.split(), row.split(), strict=True)) == {
        "BOOKIE-ID": FIRST,
        "STATE": "done",
        "PASS": "2",
        "PERCENT": "-",
        "READ-SIZE": "1000",
        "DAMAGED-FILES": "0",
        "DAMAGED-LEDGERS": "0",
        "DAMAGED-ENTRIES": "0",
        "UNREPORTED-LEDGERS": "0",
    }


def test_damage_is_listed_and_is_the_exit_code(run: Run) -> None:
    done = run("bookie", "scrub", DAMAGED, "--wait", "-o", "json")

    assert done.exit_code == EXIT_DAMAGE
    assert "1 damaged files, 2 ledgers" in done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row.pop("kind") for row in rows] == ["pass", "file", "entries", "entries"]
    assert rows[1] == {
        "bookie_id": DAMAGED,
        "path": "/l/logs/00000001.log",
        "offset": 80,
        "ledger_id": 7,
        "reason": "a block fails its checksum",
    }
    assert [(row["ledger_id"], row["last_entry_id"]) for row in rows[2:]] == [(7, 4), (8, None)]


def test_all_begin_before_one_is_waited_for(run: Run, client: FakeClient) -> None:
    done = run("bookie", "scrub", "--all", "--wait")

    assert done.exit_code == EXIT_DAMAGE
    assert client.scrubbed == [
        *((one, True) for one in BOOKIES),
        *((one, None) for one in BOOKIES),
    ]
    assert all(one in done.stdout for one in BOOKIES)


def test_to_ask_begins_nothing(run: Run, client: FakeClient) -> None:
    done = run("bookie", "scrub", "--all", "--status")

    assert client.scrubbed == [(one, False) for one in BOOKIES]
    assert done.exit_code == EXIT_DAMAGE


def test_one_bookie_or_all_have_to_be_named(run: Run) -> None:
    for arguments in ((), (FIRST, "--all")):
        done = run("bookie", "scrub", *arguments)
        assert done.exit_code == EXIT_CALLER
        assert "--all" in done.stderr


@pytest.mark.parametrize("how", ["--wait", "--status"])
def test_a_silent_bookie_hides_nothing_of_the_others(
    run: Run, client: FakeClient, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    silence(client, monkeypatch, FIRST)

    done = run("bookie", "scrub", "--all", how)

    assert done.exit_code == EXIT_DAMAGE
    assert all(one in done.stdout for one in BOOKIES[1:])
    assert f"bookie {FIRST} is not part of this" in done.stderr


def test_a_silent_bookie_is_the_exit_code_of_healthy_others(
    run: Run, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence(client, monkeypatch, DAMAGED)

    done = run("bookie", "scrub", "--all", "-o", "json")

    assert done.exit_code == EXIT_UNAVAILABLE
    begun = [json.loads(line)["bookie_id"] for line in done.stdout.splitlines()]
    assert begun == [one for one in BOOKIES if one != DAMAGED]
    assert f"bookies did not answer: {DAMAGED}" in done.stderr


def test_the_error_of_a_lone_bookie_is_its_own(
    run: Run, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    silence(client, monkeypatch, FIRST)

    done = run("bookie", "scrub", FIRST, "--status")

    assert (done.exit_code, done.stdout) == (EXIT_UNAVAILABLE, "")
    assert done.stderr.count(FIRST) == 1


def silence(client: FakeClient, monkeypatch: pytest.MonkeyPatch, silent: str) -> None:
    scrub = client.scrub

    def answer(bookie_id: str, *, is_pass_wanted: bool = True) -> ScrubStatus:
        if bookie_id == silent:
            raise BookieUnavailableError(bookie_id, "no answer")
        return scrub(bookie_id, is_pass_wanted=is_pass_wanted)

    monkeypatch.setattr(client, "scrub", answer)
