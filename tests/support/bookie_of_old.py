"""A bookie of an older zbk: ``python -m`` this, in place of ``zbk``.

It announces no features, and knows neither ledgers that bypass the journal nor metadata of ledgers
above format 2.
"""

from typing import Any

import msgspec

from zbk.actors.process import bookie
from zbk.cli.main import main
from zbk.errors import MalformedMessageError, UnsupportedVersionError
from zbk.metadata.records import ledgers
from zbk.metadata.values import decode
from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.formats import PLAIN_FORMAT_VERSION
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.wire import codec


def _decode_value(value_type: Any, content: bytes, path: str) -> Any:  # noqa: ANN401 - as decode
    found = decode(value_type, content, path)
    if isinstance(found, LedgerMetadata) and found.format_version > PLAIN_FORMAT_VERSION:
        raise UnsupportedVersionError(f"{path} has format {found.format_version}")
    return found


_decode_request = codec.decode_request


def _decode_message(header: bytes) -> Any:  # noqa: ANN401 - as codec.decode_request
    found = _decode_request(header)
    if getattr(found, "ledger_type", None) is LedgerType.VD_BYPASS_JOURNAL:
        raise MalformedMessageError("VD_BYPASS_JOURNAL is no type of a ledger")
    return found


if __name__ == "__main__":
    vars(bookie)["FEATURES"] = msgspec.UNSET
    vars(ledgers)["decode"] = _decode_value
    vars(codec)["decode_request"] = _decode_message
    main()
