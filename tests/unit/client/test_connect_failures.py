"""Connecting that fails late: nothing of the client is left."""

from pathlib import Path

import pytest

from tests.support.bookie_here import BookieHere
from tests.support.threads import NewThreads
from tests.support.waiting import wait_until
from zbk.errors import InvalidOptionError


def test_a_client_whose_audit_log_cannot_be_opened_leaves_nothing(
    world: BookieHere, tmp_path: Path
) -> None:
    threads = NewThreads()

    with pytest.raises(InvalidOptionError, match="audit_log"):
        world.connect(audit_log=str(tmp_path / "no" / "such" / "folder"))
    wait_until(
        lambda: not threads.names("zbk-dealer") + threads.names("zbk-client"),
        what="the end of all its threads",
    )
