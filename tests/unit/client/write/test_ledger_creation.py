"""What may be asked for when a ledger is made."""

from typing import Any, cast

import pytest

from zbk.client.write.ledger_creation import LedgerOptions, plan_ledger
from zbk.errors import InvalidOptionError, InvalidQuorumError
from zbk.protocol.entry.words import DigestType, LedgerType
from zbk.protocol.ledger.quorum import Quorum


def test_what_is_not_said_has_its_default() -> None:
    plan = plan_ledger({})

    assert plan.quorum == Quorum(3, 3, 2)
    assert (plan.ledger_type, plan.digest_type) == (LedgerType.PD_JOURNAL, DigestType.XXH3)
    assert (plan.password, plan.custom_metadata) == (b"", {})


def test_types_may_be_texts() -> None:
    plan = plan_ledger({"ledger_type": "VD_JOURNAL", "digest_type": "NONE", "password": b"p"})

    assert (plan.ledger_type, plan.digest_type) == (LedgerType.VD_JOURNAL, DigestType.NONE)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"ensemble": 3}, TypeError, "no option 'ensemble'"),
        ({"ledger_type": "FAST"}, InvalidOptionError, "ledger_type='FAST': is none of"),
        ({"digest_type": "CRC"}, InvalidOptionError, "digest_type='CRC'"),
        ({"digest_type": "MAC"}, InvalidOptionError, "digest_type='MAC': needs a password"),
        ({"ensemble_size": 1}, InvalidQuorumError, "got 1, 3, 2"),
    ],
)
def test_what_cannot_be_is_refused(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        plan_ledger(cast("LedgerOptions", options))
