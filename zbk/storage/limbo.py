"""The losses of a bookie on disk; what follows from them says ``zbk.durability.limbo``.

Format version 1 of ``limbo``. All integers little-endian.

    offset  size  field          type     meaning
    ------  ----  -------------  -------  --------------------------------------------------
         0     4  magic          u32      "zbkL"
         4     2  version        u16      1
         6     2  loss_count     u16      how many losses, at most one of each reason
         8     8  owner          u64      xxh3_64 of the bookie's identity
        16     8  body_size      u64      bytes of all losses
        24     8  body_checksum  u64      xxh3_64 of them
        32     8  checksum       u64      xxh3_64 of bytes 0 .. 32

    each loss
         0     8  reason         u64      1 unclean stop, 2 wiped, 3 directory lost
         8     8  bound          i64      ledgers below it
        16     8  count          u64      c; how many ranges, at most 65536
        24  16 c  cleared        i64 i64  first and last ledger id, ascending, not adjacent

Guarantees: the file is replaced whole, by a synced one; a crash leaves the old one or the new one.
A loss is in the file before the bookie serves, and a ledger is cleared there before anything about
it is denied. Without losses there is no file.

Recovery rule: a damaged file is refused; there is no safe guess at what it said. Removed by hand,
the bookie starts, and may deny what it has lost.

Limits: ``RANGE_COUNT_MAX`` ranges a loss. Ledgers that would need more stay in limbo.

Changing any line of this table needs a new version, new golden bytes and a reader for the old one.

Threads: ``limbo`` belongs to all; everything else to one thread at a time.
"""

import struct
from collections.abc import Iterable
from typing import Final

from zbk.durability.limbo import Limbo, Loss, LossReason
from zbk.errors import (
    CookieMismatchError,
    CorruptRecordError,
    NoSpaceError,
    StorageFailedError,
    UnknownLedgerStateError,
)
from zbk.protocol.digest import checksum
from zbk.storage.fail_stop import FailStop
from zbk.storage.ledger_ranges import LedgerRanges, is_in_order
from zbk.storage.small_file import read_file, replace_file
from zbk.system.files import FileSystem

LIMBO_NAME: Final = "limbo"
RANGE_COUNT_MAX: Final = 65_536

_MAGIC: Final = b"zbkL\x01\x00"
_FIELDS = struct.Struct("<6sHQQQ")
_CHECKSUM = struct.Struct("<Q")
_LOSS = struct.Struct("<QqQ")
_RANGE = struct.Struct("<qq")
_HEADER_SIZE: Final = _FIELDS.size + _CHECKSUM.size
_NUMBERS: Final = {
    LossReason.UNCLEAN_STOP: 1,
    LossReason.WIPED: 2,
    LossReason.DIRECTORY_LOST: 3,
}
_REASONS: Final = {number: reason for reason, number in _NUMBERS.items()}

assert _HEADER_SIZE == 40


class LimboFile:
    """The losses, in memory and on disk: both the same, but while one of them is being written."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        *,
        bookie_id: str,
        fail_stop: FailStop,
        range_count_max: int = RANGE_COUNT_MAX,
    ) -> None:
        self._files = files
        self.directory = directory
        self._path = f"{directory}/{LIMBO_NAME}"
        self._bookie_id = bookie_id
        self._owner_hash = checksum(bookie_id.encode())
        self._fail_stop = fail_stop
        self._range_count_max = range_count_max
        self._limbo = Limbo()

    @property
    def limbo(self) -> Limbo:
        """What the bookie may have lost. Any thread."""
        return self._limbo

    def unknown(self, ledger_id: int) -> UnknownLedgerStateError:
        """Return the answer that is neither yes nor no."""
        return UnknownLedgerStateError(ledger_id, self._bookie_id)

    def failed(self, operation: str, error: OSError) -> StorageFailedError:
        """Take in that what goes with this file failed; return the error to raise."""
        return self._fail_stop.failed(self.directory, operation, error)

    def load(self) -> None:
        """Read the file, if there is one.

        Raises:
            CorruptRecordError: it is damaged.
            CookieMismatchError: it is another bookie's.
            OSError: it can not be read.
        """
        data = read_file(self._files, self._path)
        if data is None:
            return
        self._limbo = _decode(data, self._owner_hash, self._path)

    def note_loss(self, reason: LossReason, bound: int) -> None:
        """Note, durably, that parts of the ledgers below ``bound`` may be lost.

        To be called before anything is served, with the next ledger id of the cluster.

        Raises:
            NoSpaceError: the disk has no room for it; the file is as it was.
            StorageFailedError: writing failed otherwise, or anything failed before.
        """
        self._write(self._limbo.with_loss(Loss(reason, bound, LedgerRanges())))

    def clear(self, ranges: Iterable[tuple[int, int]]) -> bool:
        """Clear ledgers, durably; false, and nothing changed, if there is no room for it.

        Raises:
            StorageFailedError: writing failed, or anything failed before.
        """
        limbo = self._limbo.with_cleared(ranges)
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
        """Return the ids that are in limbo for one of these reasons."""
        wanted = set(reasons)
        return LedgerRanges().with_ranges(
            gap
            for loss in self._limbo.losses
            if loss.reason in wanted
            for gap in _cleared(loss).gaps(loss.bound)
        )

    # -------------------------------------------------------------- private

    def _write(self, limbo: Limbo) -> None:
        self._fail_stop.check()
        if limbo == self._limbo:
            return
        try:
            if limbo.losses:
                replace_file(
                    self._files, self.directory, LIMBO_NAME, _encode(limbo, self._owner_hash)
                )
            else:
                self._files.remove(self._path)
                self._files.sync_dir(self.directory)
        except OSError as error:
            raise self._fail_stop.failed(self._path, "write", error) from error
        self._limbo = limbo


def _cleared(loss: Loss) -> LedgerRanges:
    assert isinstance(loss.cleared, LedgerRanges), "made here"
    return loss.cleared


def _encode(limbo: Limbo, owner_hash: int) -> bytes:
    body = b"".join(map(_encode_loss, limbo.losses))
    fields = _FIELDS.pack(_MAGIC, len(limbo.losses), owner_hash, len(body), checksum(body))
    return fields + _CHECKSUM.pack(checksum(fields)) + body


def _encode_loss(loss: Loss) -> bytes:
    ranges = _cleared(loss)
    head = _LOSS.pack(_NUMBERS[loss.reason], loss.bound, ranges.range_count)
    return head + b"".join(map(_RANGE.pack, ranges.firsts, ranges.lasts))


def _decode(data: bytes, owner_hash: int, where: str) -> Limbo:
    if len(data) < _HEADER_SIZE:
        raise CorruptRecordError(where, 0, "ends inside its header")
    magic, loss_count, own_hash, body_size, body_checksum = _FIELDS.unpack_from(data, 0)
    (stored,) = _CHECKSUM.unpack_from(data, _FIELDS.size)
    if magic != _MAGIC or checksum(data[: _FIELDS.size]) != stored:
        raise CorruptRecordError(where, 0, "the header is damaged")
    if own_hash != owner_hash:
        raise CookieMismatchError(f"{where} is another bookie's")
    body = data[_HEADER_SIZE:]
    if len(body) != body_size or checksum(body) != body_checksum:
        raise CorruptRecordError(where, _HEADER_SIZE, "the losses are damaged")
    limbo, offset = Limbo(), 0
    for _ in range(loss_count):
        loss, offset = _decode_loss(body, offset, where)
        limbo = limbo.with_loss(loss)
    if offset != body_size or len(limbo.losses) != loss_count:
        raise CorruptRecordError(where, _HEADER_SIZE, "the losses are not as many as it says")
    return limbo


def _decode_loss(body: bytes, offset: int, where: str) -> tuple[Loss, int]:
    try:
        number, bound, count = _LOSS.unpack_from(body, offset)
        reason = _REASONS[number]
    except (struct.error, KeyError) as error:
        raise CorruptRecordError(where, _HEADER_SIZE + offset, f"no loss: {error}") from error
    start = offset + _LOSS.size
    stop = start + count * _RANGE.size
    bounds = list(_RANGE.iter_unpack(body[start:stop])) if stop <= len(body) else []
    firsts, lasts = [first for first, _ in bounds], [last for _, last in bounds]
    is_below = max(lasts, default=-1) < bound
    if stop > len(body) or not is_below or not is_in_order(firsts, lasts):
        raise CorruptRecordError(where, _HEADER_SIZE + start, "the ranges are not in order")
    return Loss(reason, bound, LedgerRanges(tuple(firsts), tuple(lasts))), stop
