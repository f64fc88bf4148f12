"""Headers to bytes and back, with limits. The frames behind a header are not touched here.

A header is decoded by a typed decoder that never allocates more than the header's own size, which
is limited first. Whatever arrives, the outcome is a message or a ``WireError``.
"""

from array import array
from collections.abc import Sequence
from typing import Any, Final

import msgpack
import msgspec

from zbk.conversion import ready
from zbk.errors import MalformedMessageError, UnknownOperationError, ZbkError
from zbk.protocol.entry.entry_batch import EntryBatch, sizes_to_wire
from zbk.protocol.entry.rounds import is_ascending, little_endian
from zbk.wire.messages import Answer, AnswerBundle, Bundle, Message, Refused, Request

HEADER_SIZE_MAX: Final = 64 * 1024
FRAME_COUNT_MAX: Final = 4

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request | Bundle] = msgspec.msgpack.Decoder(
    ready(Request | Bundle)
)
_answers: msgspec.msgpack.Decoder[Answer | AnswerBundle] = msgspec.msgpack.Decoder(
    ready(Answer | AnswerBundle)
)
_OPERATIONS = frozenset(kind.__struct_config__.tag for kind in (*Request.__args__, Bundle))


def encode(message: Message) -> bytes:
    """Return the header frame of a message."""
    return _encoder.encode(message)


def decode_request(header: bytes) -> Request | Bundle:
    """Return the request, or the bundle of some, in a header frame.

    Raises:
        UnknownOperationError: a well-formed header of an operation that we do not have.
        MalformedMessageError: anything else that is no request.
    """
    if len(header) > HEADER_SIZE_MAX:
        raise MalformedMessageError(f"a header of {len(header)} bytes is over {HEADER_SIZE_MAX}")
    try:
        return _requests.decode(header)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        operation = _peek(header).get("op")
        if isinstance(operation, str) and operation not in _OPERATIONS:
            raise UnknownOperationError(f"unknown operation {operation[:64]!r}") from error
        raise MalformedMessageError(f"not a request: {error}") from error


def decode_answer(header: bytes) -> Answer | AnswerBundle:
    """Return the answer, or the bundle of some, in a header frame.

    Raises:
        MalformedMessageError: it is no answer.
    """
    if len(header) > HEADER_SIZE_MAX:
        raise MalformedMessageError(f"a header of {len(header)} bytes is over {HEADER_SIZE_MAX}")
    try:
        return _answers.decode(header)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedMessageError(f"not an answer: {error}") from error


def peek_request_id(header: bytes) -> int:
    """Return the request id of a header that may be anything else than well-formed; 0 if none."""
    request_id = _peek(header[:HEADER_SIZE_MAX]).get("request_id")
    if not isinstance(request_id, int) or isinstance(request_id, bool):
        return 0
    return request_id if 0 <= request_id < 2**63 else 0


def refusal(request_id: int, incarnation: int, error: ZbkError) -> Refused:
    """Return the answer that carries ``error``."""
    return Refused(
        request_id=request_id,
        incarnation=incarnation,
        code=error.code,
        fields=[f if isinstance(f, int | float | str | None) else str(f) for f in error.fields()],
    )


def encode_ids(entry_ids: Sequence[int]) -> bytes:
    """Return entry ids as a frame: i64 little-endian each."""
    return little_endian(array("q", entry_ids)).tobytes()


def encode_batch(batch: EntryBatch) -> tuple[bytes, ...]:
    """Return the frames behind the header of an add: sizes, body, and ids if there are holes."""
    frames = (sizes_to_wire(batch.sizes), batch.body)
    return frames if batch.is_in_a_row else (*frames, encode_ids(batch.entry_ids))


def decode_ids(frame: bytes, count_max: int) -> "array[int]":
    """Return the ascending entry ids in a frame.

    Raises:
        MalformedMessageError: no whole number of ids, too many, or not ascending from 0 up.
    """
    if not frame or len(frame) % 8 or len(frame) // 8 > count_max:
        raise MalformedMessageError(f"{len(frame)} bytes are no list of 1 to {count_max} entry ids")
    ids = array("q")
    ids.frombytes(frame)
    ids = little_endian(ids)
    if not is_ascending(ids):
        raise MalformedMessageError("entry ids must ascend from 0 up")
    return ids


def _peek(header: bytes) -> dict[str, Any]:
    """Return the map in a header without its type, or an empty one. For error answers only.

    It decodes with ``msgpack``, because ``msgspec.msgpack`` has no limits on the sizes of untyped
    values.
    """
    try:
        found = msgpack.unpackb(
            header,
            max_str_len=1024,
            max_bin_len=1024,
            max_array_len=1024,
            max_map_len=64,
            max_ext_len=0,
            strict_map_key=True,
        )
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
