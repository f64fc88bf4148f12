"""The formats of the metadata of a ledger: the lowest one that has the fields which are given.

So older clients keep reading ledgers that do not need what is newer. Pure.
"""

from typing import Final

import msgspec

METADATA_FORMAT_VERSION: Final = 4
"""The newest format that this zbk reads and writes.

2 added ``ledger_key``: a zbk that knew only 1 would lose it with the next change. 3 added
``reported_lac``: a zbk that knew only 2 would report a LAC without recording it. 4 added
``access``: a zbk that knew only 3 would lose it with the next change.
"""

REPORTED_LAC_FORMAT_VERSION: Final = 3
"""The format of ledgers that have a ``reported_lac`` and no ``access``."""

PLAIN_FORMAT_VERSION: Final = 2
"""The format of ledgers that have neither, so that older clients keep reading them."""


def format_of(before: int, reported_lac: object, access: object) -> int:
    """Return the lowest format that has these fields; an older one stays."""
    if access is not msgspec.UNSET:
        return METADATA_FORMAT_VERSION
    if reported_lac is not msgspec.UNSET:
        return REPORTED_LAC_FORMAT_VERSION
    return min(before, PLAIN_FORMAT_VERSION)
