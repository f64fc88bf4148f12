"""The manual read-only switch of a real bookie."""

import signal
from functools import partial
from pathlib import Path

import pytest

import zbk
from tests.support.cluster import Shell, lone_ledger
from tests.support.waiting import wait_until
from zbk.errors import ZbkError

DIRECTORIES = ("--journal-dir", "b/journal", "--ledger-dir", "b/ledgers")
RUN = ("bookie", "run", *DIRECTORIES, "--listen", "tcp://127.0.0.1:0", "--http", "off")


def is_in_mode(client: zbk.Client, *, is_readonly: bool) -> bool:
    """Return whether the bookie is registered so; for a moment it is in neither list."""
    return [one.is_readonly for one in client.list_bookies()] == [is_readonly]


def test_a_bookie_that_is_switched_off_takes_no_entries_also_after_a_restart(
    tmp_path: Path,
) -> None:
    address = f"sqlite://{tmp_path}/metadata.db"
    shell = Shell(tmp_path, {"ZBK_METADATA": address})
    shell.run("bookie", "init", *DIRECTORIES)
    for life in range(2):
        with shell.start(*RUN) as process:
            assert process.stderr is not None
            next(line for line in iter(process.stderr.readline, b"") if b"READY" in line)
            with zbk.connect(address) as client:
                bookie_id = client.list_bookies()[0].bookie_id
                if life == 0:
                    ledger = lone_ledger(client)
                    ledger.append(b"before")
                    shell.run("bookie", "readonly", bookie_id, "on")
                    wait_until(partial(is_in_mode, client, is_readonly=True))
                    with pytest.raises(ZbkError):
                        ledger.append_many([b"after"]).result(30)
                else:
                    assert is_in_mode(client, is_readonly=True)
                    with client.recover_ledger(0) as reader:
                        assert reader.last_add_confirmed == 0
                    shell.run("bookie", "readonly", bookie_id, "off")
                    wait_until(partial(is_in_mode, client, is_readonly=False))
                    lone_ledger(client).append(b"again")
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            assert process.wait(30) == 0
