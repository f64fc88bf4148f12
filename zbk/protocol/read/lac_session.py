"""The session in which one bookie watches the LACs of many ledgers, with one request at a time.

A *watch* waits for one ledger's LAC to rise above a known one; it ends once, with a LAC or with an
error. The watches of a bookie share a *session* there: each request names the watches that begin
and those that end, and its answer names those that are over. While the session has watches, one
request of it waits at the bookie; a second one follows when there are new watches, and the bookie
then answers the first one. At most two are under way, so watches that begin meanwhile travel
together.

A session ends with the first error of any of its requests, and all of its watches end with it. If
the bookie has forgotten the session, the watches join the next one, and their owners see nothing
of it.

Pure. One for each bookie of a client, owned by ``zbk.client.read.lac_watches``.

Source: issue of many readers; Kafka's KIP-227 (incremental fetch sessions).
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from zbk.errors import ZbkError
from zbk.protocol.entry.words import LedgerType

REQUEST_COUNT_MAX: Final = 2
BEGIN_COUNT_MAX: Final = 500
END_COUNT_MAX: Final = 2_000
"""Watches that one request begins, and ends: the limits of the wire format."""


class Watched(msgspec.Struct, frozen=True, gc=False):
    """One watch: ``number`` is unique in the client."""

    number: int
    ledger_id: int
    ledger_key: bytes
    ledger_type: LedgerType
    known_lac: int


class WatchRequest(msgspec.Struct, frozen=True):
    """A request to send now. Its answer goes to ``answered`` or ``failed``."""

    session_id: int
    number: int
    is_first: bool
    begun: Sequence[Watched]
    ended: Sequence[int]


WatchEnd: TypeAlias = tuple[int, int | ZbkError]
"""A watch's number, and the LAC or the error that it ended with."""


class LacSession:
    """The watches of one bookie.

    ``session_ids`` yields ids that no session of this client has had.

    Invariants, checked in ``_check``:
      * at most ``REQUEST_COUNT_MAX`` requests are under way, and after ``next_request`` at least
        one while the bookie has a watch;
      * a watch either waits to be sent or is at the bookie.
    """

    def __init__(self, session_ids: Iterator[int]) -> None:
        self._session_ids = session_ids
        self._session_id = next(session_ids)
        self._is_first = True
        self._unsent: dict[int, Watched] = {}
        self._sent: dict[int, Watched] = {}
        self._ended: dict[int, None] = {}  # dropped by the client, but not yet at the bookie
        self._requests: set[int] = set()  # under way, of this session
        self._request_number = 0

    def __len__(self) -> int:
        """Return the number of watches that have not ended."""
        return len(self._unsent) + len(self._sent)

    def begin(self, watch: Watched) -> None:
        """Add a watch; it leaves with the next request."""
        self._unsent[watch.number] = watch

    def end(self, number: int) -> None:
        """Drop a watch: it is not reported any more."""
        if self._unsent.pop(number, None) is None and self._sent.pop(number, None) is not None:
            self._ended[number] = None

    def next_request(self) -> WatchRequest | None:
        """Return the request to send now, if any. Call it after each event."""
        is_listening_enough = bool(self._requests) or not self._sent
        if not self._unsent and is_listening_enough:
            return None
        if len(self._requests) >= REQUEST_COUNT_MAX:
            return None
        begun = [*islice(self._unsent.values(), BEGIN_COUNT_MAX)]
        ended = [*islice(self._ended, END_COUNT_MAX)]
        for watch in begun:
            del self._unsent[watch.number]
            self._sent[watch.number] = watch
        for number in ended:
            del self._ended[number]
        request = WatchRequest(self._session_id, self._request_number, self._is_first, begun, ended)
        self._requests.add(self._request_number)
        self._request_number += 1
        self._is_first = False
        self._check()
        return request

    def answered(
        self,
        request: WatchRequest,
        risen: Sequence[tuple[int, int]],
        refused: Sequence[tuple[int, ZbkError]],
        *,
        is_lost: bool,
    ) -> list[WatchEnd]:
        """Handle an answer; return the watches that it ends."""
        if not self._take(request):
            return []
        if is_lost:
            again, self._sent = self._sent, {}
            self._begin_session()
            self._unsent = again | self._unsent
            return []
        found: list[WatchEnd] = [*risen, *refused]
        ends = [end for end in found if self._sent.pop(end[0], None) is not None]
        self._check()
        return ends

    def failed(self, request: WatchRequest, error: ZbkError) -> list[WatchEnd]:
        """Handle the error of a request; return the watches, which all end with it."""
        if not self._take(request):
            return []
        return [(watch.number, error) for watch in self.take_all()]

    def take_all(self) -> list[Watched]:
        """Remove and return all watches. The next one begins a new session."""
        watches = [*self._sent.values(), *self._unsent.values()]
        self._unsent.clear()
        self._begin_session()
        return watches

    def _begin_session(self) -> None:
        """Leave the session at the bookie: further answers in it are ignored."""
        self._session_id = next(self._session_ids)
        self._is_first = True
        self._sent.clear()
        self._ended.clear()
        self._requests.clear()

    def _take(self, request: WatchRequest) -> bool:
        if request.session_id != self._session_id or request.number not in self._requests:
            return False
        self._requests.remove(request.number)
        return True

    def _check(self) -> None:
        assert len(self._requests) <= REQUEST_COUNT_MAX
        assert not (self._sent.keys() & self._unsent.keys()), "sent once"
        assert not (self._sent.keys() & self._ended.keys()), "ended once"
