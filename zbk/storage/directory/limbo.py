"""The losses of a bookie on disk. Their consequences are in ``zbk.durability.limbo``.

Format version 1 of ``limbo``. All integers little-endian.

    offset  size  field          type     meaning
    ------  ----  -------------  -------  --------------------------------------------------
         0     4  magic          u32      "zbkL"
         4     2  version        u16      1
         6     2  loss_count     u16      number of losses, at most one of each reason
         8     8  owner          u64      xxh3_64 of the bookie's identity
        16     8  body_size      u64      bytes of all losses
        24     8  body_checksum  u64      xxh3_64 of them
        32     8  checksum       u64      xxh3_64 of bytes 0 .. 32

    each loss
         0     8  reason         u64      1 unclean stop, 2 wiped, 3 directory lost
         8     8  bound          i64      ledgers below it
        16     8  count          u64      c; how many ranges, at most 65536
        24  16 c  cleared        i64 i64  first and last ledger id, ascending, not adjacent

Format version 2, written while a loss of reason 4 is noted: version 1, but for each loss

        offset  size  field          type     meaning
        ------  ----  -------------  -------  --------------------------------------------------
             0     8  reason         u64      as above; 4 index lost
             8     8  bound          i64      ledgers below it
            16     8  count          u64      c, as above
            24     8  scope_count    u64      s; how many ranges, at most 65536, of ledgers that it
                                              concerns; 0: all below the bound
            32  16 c  cleared        i64 i64  as above
     32 + 16 c  16 s  scope          i64 i64  first and last ledger id, ascending, not adjacent

Guarantees: the file is replaced whole, by a synced one; a crash leaves the old one or the new one.
A loss is in the file before the bookie serves, and a ledger is cleared there before the bookie
denies anything of it. Without losses there is no file.

Recovery rule: a damaged file is refused, because its content cannot be guessed safely. If it is
removed by hand, the bookie starts and may deny entries that it has lost.

Limits: ``RANGE_COUNT_MAX`` ranges in a loss. Ledgers that would need more ranges stay in limbo.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.

Threads: any thread may read ``limbo``; everything else belongs to one thread at a time.
"""

import struct
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Final

import msgspec

from zbk.durability.limbo import Limbo, Loss, LossReason
from zbk.errors import (
    CorruptRecordError,
    NoSpaceError,
    UnknownLedgerStateError,
)
from zbk.storage.disk.fail_stop import FailStop
from zbk.storage.disk.ledger_ranges import RANGE_SIZE, LedgerRanges, decode_ranges, encode_ranges
from zbk.storage.disk.owned_file import Owned, OwnedFile, OwnedKind
from zbk.system.files import FileSystem

LIMBO_NAME: Final = "limbo"
RANGE_COUNT_MAX: Final = 65_536

_PLAIN: Final = 1
_WITH_SCOPES: Final = 2
_KIND: Final = OwnedKind(b"zbkL", own_fields="Q", versions=(_PLAIN, _WITH_SCOPES))
_LOSS: Final = struct.Struct("<QqQ")
_SCOPED_LOSS: Final = struct.Struct("<QqQQ")
_NUMBERS: Final = {
    LossReason.UNCLEAN_STOP: 1,
    LossReason.WIPED: 2,
    LossReason.DIRECTORY_LOST: 3,
    LossReason.INDEX_LOST: 4,
}
_REASONS: Final = {number: reason for reason, number in _NUMBERS.items()}

assert _KIND.header_size == 40


class LimboFile:
    """The losses, in memory and on disk; they differ only while a change is being written."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        *,
        bookie_id: str,
        fail_stop: FailStop,
        range_count_max: int = RANGE_COUNT_MAX,
    ) -> None:
        self.directory = directory
        self._bookie_id = bookie_id
        owner = bookie_id.encode()
        self._file = OwnedFile(
            files, directory, LIMBO_NAME, _KIND, owner=owner, fail_stop=fail_stop
        )
        self._fail_stop = fail_stop
        self._range_count_max = range_count_max
        self._limbo = Limbo()

    @property
    def limbo(self) -> Limbo:
        """The losses. Any thread."""
        return self._limbo

    def unknown(self, ledger_id: int) -> UnknownLedgerStateError:
        """Return the error that means neither yes nor no."""
        return UnknownLedgerStateError(ledger_id, self._bookie_id)

    def guard(self, operation: str, path: str = "") -> AbstractContextManager[None]:
        """Return a context in which an ``OSError`` fails this directory (``FailStop.guard``).

        ``path``: or another one of the bookie.
        """
        return self._fail_stop.guard(path or self.directory, operation)

    def load(self) -> None:
        """Read the file, if there is one.

        Raises:
            CorruptRecordError: it is damaged.
            CookieMismatchError: it is another bookie's.
            OSError: it cannot be read.
        """
        found = self._file.read()
        if found is not None:
            self._limbo = _limbo_in(found, self._file.path)

    def note_loss(self, reason: LossReason, bound: int) -> None:
        """Record, durably, that parts of the ledgers below ``bound`` may be lost.

        Call it before the bookie serves, with the next ledger id of the cluster.

        Raises:
            NoSpaceError: the disk has no room for it; the file is as it was.
            StorageFailedError: writing failed otherwise, or anything failed before.
        """
        self._write(self._limbo.with_loss(Loss(reason, bound, LedgerRanges())))

    def note_lost_indexes(self, scope: LedgerRanges) -> None:
        """Record, durably, that the index of these ledgers is lost. Raises as ``note_loss``."""
        loss = Loss(LossReason.INDEX_LOST, scope.lasts[-1] + 1, LedgerRanges(), scope)
        limbo = self._limbo.with_loss(loss)
        if self._lost_indexes_of(limbo).range_count > self._range_count_max:
            whole = LedgerRanges((0,), (loss.bound - 1,))
            limbo = self._limbo.with_loss(msgspec.structs.replace(loss, scope=whole))
        self._write(limbo)

    @property
    def lost_indexes(self) -> LedgerRanges:
        """The ledgers whose index was once lost, cleared or not."""
        return self._lost_indexes_of(self._limbo)

    @staticmethod
    def _lost_indexes_of(limbo: Limbo) -> LedgerRanges:
        scopes = (_scope(one) for one in limbo.losses if one.reason is LossReason.INDEX_LOST)
        return next(scopes, LedgerRanges())

    def clear_lost_indexes(self, ledgers: LedgerRanges) -> bool:
        """Clear ledgers whose entries are all in the index again; return false as ``clear``.

        Other losses still concern these ledgers.

        Raises:
            StorageFailedError: writing failed, or anything failed before.
        """
        ranges = list(_ranges_of(ledgers))
        return self._replace(
            Limbo(
                tuple(
                    one.with_cleared(ranges) if one.reason is LossReason.INDEX_LOST else one
                    for one in self._limbo.losses
                )
            )
        )

    def clear(self, ranges: Iterable[tuple[int, int]]) -> bool:
        """Clear ledgers, durably; return false, with nothing changed, if there is no room.

        Raises:
            StorageFailedError: writing failed, or anything failed before.
        """
        return self._replace(self._limbo.with_cleared(ranges))

    def _replace(self, limbo: Limbo) -> bool:
        if max((_cleared(one).range_count for one in limbo.losses), default=0) > (
            self._range_count_max
        ):
            return False
        try:
            self._write(limbo)
        except NoSpaceError:
            return False
        return True

    def left(self, reasons: Iterable[LossReason]) -> LedgerRanges:
        """Return the ledgers that are in limbo for one of these reasons."""
        wanted = set(reasons)
        return LedgerRanges().with_ranges(
            gap for loss in self._limbo.losses if loss.reason in wanted for gap in _left(loss)
        )

    # -------------------------------------------------------------- private

    def _write(self, limbo: Limbo) -> None:
        self._fail_stop.check()
        if limbo == self._limbo:
            return
        if limbo.losses:
            self._file.write(_content_of(limbo))
        else:
            self._file.remove()
        self._limbo = limbo


def _left(loss: Loss) -> Iterable[tuple[int, int]]:
    """Return the ranges of ledgers that a loss concerns and that are not cleared."""
    if loss.scope is None:
        return _cleared(loss).gaps(loss.bound)
    return _ranges_of(_scope(loss).without(_cleared(loss)))


def _ranges_of(ranges: LedgerRanges) -> Iterable[tuple[int, int]]:
    return zip(ranges.firsts, ranges.lasts, strict=True)


def _scope(loss: Loss) -> LedgerRanges:
    assert loss.scope is None or isinstance(loss.scope, LedgerRanges), "made here"
    return loss.scope or LedgerRanges()


def _cleared(loss: Loss) -> LedgerRanges:
    assert isinstance(loss.cleared, LedgerRanges), "made here"
    return loss.cleared


def _content_of(limbo: Limbo) -> Owned:
    has_scopes = any(loss.scope is not None for loss in limbo.losses)
    body = b"".join(_encode_loss(loss, has_scopes=has_scopes) for loss in limbo.losses)
    version = _WITH_SCOPES if has_scopes else _PLAIN
    return Owned((len(body),), body, number=len(limbo.losses), version=version)


def _encode_loss(loss: Loss, *, has_scopes: bool) -> bytes:
    cleared, scope = _cleared(loss), _scope(loss)
    head = _NUMBERS[loss.reason], loss.bound, cleared.range_count
    if not has_scopes:
        return _LOSS.pack(*head) + encode_ranges(cleared)
    packed = _SCOPED_LOSS.pack(*head, scope.range_count)
    return packed + encode_ranges(cleared) + encode_ranges(scope)


def _limbo_in(content: Owned, where: str) -> Limbo:
    limbo, offset = Limbo(), 0
    for _ in range(content.number):
        has_scope = content.version == _WITH_SCOPES
        loss, offset = _decode_loss(content.body, offset, where, has_scope=has_scope)
        limbo = limbo.with_loss(loss)
    is_whole = (offset,) == content.own_fields and offset == len(content.body)
    if not is_whole or len(limbo.losses) != content.number:
        raise CorruptRecordError(where, _KIND.header_size, "the losses are not as many as it says")
    return limbo


def _decode_loss(body: bytes, offset: int, where: str, *, has_scope: bool) -> tuple[Loss, int]:
    head = _SCOPED_LOSS if has_scope else _LOSS
    try:
        number, bound, count, *more = head.unpack_from(body, offset)
        reason = _REASONS[number]
    except (struct.error, KeyError) as error:
        place = _KIND.header_size + offset
        raise CorruptRecordError(where, place, f"no loss: {error}") from error
    offset += head.size
    cleared, offset = _decode_ranges(body, offset, count, bound, where)
    scope = None
    if more and more[0]:
        scope, offset = _decode_ranges(body, offset, more[0], bound, where)
    return Loss(reason, bound, cleared, scope), offset


def _decode_ranges(
    body: bytes, start: int, count: int, bound: int, where: str
) -> tuple[LedgerRanges, int]:
    stop, place = start + count * RANGE_SIZE, _KIND.header_size + start
    ranges = decode_ranges(body[start:stop], count, where, place)
    if max(ranges.lasts, default=-1) >= bound:
        raise CorruptRecordError(where, place, "the ranges are not below the bound")
    return ranges, stop
