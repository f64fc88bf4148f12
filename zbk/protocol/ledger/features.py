"""Features of bookies: the abilities that a ledger needs, and that bookies of an older zbk lack.

A bookie announces its *features* in its registration; one that announces none is older than these.
A ledger *needs* features because of its type and of the format of its metadata, which a bookie
reads when the ledger is new to it. A bookie that lacks one is chosen neither for a new ledger, nor
as a replacement, nor for a copy: it would refuse the first entry.

Pure.
"""

from collections.abc import Collection, Iterable
from typing import Final

from zbk.protocol.entry.words import LedgerType
from zbk.protocol.ledger.formats import METADATA_FORMAT_VERSION, PLAIN_FORMAT_VERSION
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.ledger.placement import Candidate

BYPASS: Final = "vd-bypass"
"""Ledgers of the type ``VD_BYPASS_JOURNAL``."""

STRIPED: Final = "vd-striped"
"""Striped VD ledgers, of which a bookie counts the ids that are meant for it."""

_FORMATS: Final = range(PLAIN_FORMAT_VERSION + 1, METADATA_FORMAT_VERSION + 1)

FEATURES: Final = (BYPASS, STRIPED, *(f"metadata-{version}" for version in _FORMATS))
"""The features of a bookie of this zbk, as its registration has them."""

NO_NEEDS: Final[frozenset[str]] = frozenset()


def needs_of(metadata: LedgerMetadata) -> frozenset[str]:
    """Return the features that the bookies of a ledger need."""
    return needs_of_kind(
        metadata.ledger_type, metadata.format_version, is_striped=metadata.quorum.is_striped
    )


def needs_of_kind(
    ledger_type: LedgerType, format_version: int, *, is_striped: bool = False
) -> frozenset[str]:
    """Return the features that ledgers of a type need, whose metadata have a format.

    >>> sorted(needs_of_kind(LedgerType.VD_BYPASS_JOURNAL, 3))
    ['metadata-3', 'vd-bypass']
    """
    needs = {BYPASS} if ledger_type is LedgerType.VD_BYPASS_JOURNAL else set()
    if is_striped and ledger_type.is_volatile:
        needs.add(STRIPED)
    if format_version in _FORMATS:
        needs.add(f"metadata-{format_version}")
    return frozenset(needs)


def able(candidates: Iterable[Candidate], needs: Collection[str]) -> list[Candidate]:
    """Return the bookies that have all features.

    >>> new = Candidate("new", features=frozenset(FEATURES))
    >>> [one.bookie_id for one in able([Candidate("old"), new], {"vd-bypass"})]
    ['new']
    """
    return [one for one in candidates if one.features.issuperset(needs)]
