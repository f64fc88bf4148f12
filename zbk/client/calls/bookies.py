"""The calls of a client that concern single bookies."""

from collections.abc import Callable, Iterable

from zbk.client import arguments
from zbk.client.calls.connection import ClientConnection
from zbk.client.operations.garbage_collection import (
    CompactionName,
    KindName,
    collect_garbage,
    compaction_kinds,
    compaction_name,
    switch_compaction,
)
from zbk.client.operations.scrub import ask_scrub, follow_scrub
from zbk.metadata.values import BookieRegistration
from zbk.wire.messages import BookieInfo, GarbageStatus, GetBookieInfo, ScrubStatus


class BookieCalls(ClientConnection):
    """The part of a client that operates bookies."""

    def list_bookies(self) -> list[BookieRegistration]:
        """Return the registered bookies, by id."""
        self.check_usable()
        return self._directory.registrations()

    def bookie_info(self, bookie_id: str) -> BookieInfo:
        """Return what a bookie reports about itself.

        Raises:
            BookieUnavailableError: the bookie is not there.
        """
        bookie_id = arguments.bookie_id(bookie_id)
        self.check_usable()
        return self._requests.call(bookie_id, GetBookieInfo(request_id=0), BookieInfo)

    def collect_garbage(
        self, bookie_id: str, *, compaction: CompactionName = "", timeout: float = 600.0
    ) -> GarbageStatus:
        """Make a bookie drop deleted ledgers; return what it did. ``timeout`` in seconds.

        ``compaction`` "minor" or "major": also compact the entry logs whose live share is below
        that kind's threshold.

        Raises:
            BookieUnavailableError: the bookie is not there.
            RequestTimeoutError: it has not finished yet.
        """
        bookie_id = arguments.bookie_id(bookie_id)
        compaction = compaction_name(compaction)
        timeout_s = arguments.seconds(timeout)
        self.check_usable()
        return collect_garbage(self._requests, bookie_id, timeout_s, compaction)

    def switch_compaction(
        self,
        bookie_id: str,
        *,
        suspend: Iterable[KindName] = (),
        resume: Iterable[KindName] = (),
    ) -> list[str]:
        """Suspend and resume kinds of compaction at a bookie; return those suspended now.

        A suspended kind does not begin, due or requested, and one that runs ends after the log
        under way. A restart of the bookie resumes all.

        Raises:
            BookieUnavailableError: the bookie is not there, or too old to suspend compaction.
        """
        bookie_id = arguments.bookie_id(bookie_id)
        kinds = [compaction_kinds(*one) for one in (("suspend", suspend), ("resume", resume))]
        self.check_usable()
        return switch_compaction(self._requests, bookie_id, suspend=kinds[0], resume=kinds[1])

    def scrub(self, bookie_id: str, *, is_pass_wanted: bool = True) -> ScrubStatus:
        """Make a bookie begin to read all its files for damage; return its status at once.

        Without ``is_pass_wanted`` only return the status.

        Raises:
            BookieUnavailableError: the bookie is not there.
        """
        bookie_id = arguments.bookie_id(bookie_id)
        is_pass_wanted = arguments.flag("is_pass_wanted", is_pass_wanted)
        self.check_usable()
        return ask_scrub(self._requests, bookie_id, is_pass_wanted=is_pass_wanted)

    def follow_scrub(
        self,
        bookie_id: str,
        begun: ScrubStatus,
        *,
        timeout: float,
        tell: Callable[[ScrubStatus], None] = lambda _status: None,
    ) -> ScrubStatus:
        """Wait for the pass that ``scrub`` began; return what it found. ``timeout`` in seconds.

        ``tell`` receives the status several times a second.

        Raises:
            BookieUnavailableError: the bookie is not there, or has restarted, so the pass is lost.
            RequestTimeoutError: it has not finished yet.
        """
        bookie_id = arguments.bookie_id(bookie_id)
        begun = arguments.instance("begun", begun, ScrubStatus)
        timeout_s = arguments.seconds(timeout)
        tell = arguments.function("tell", tell)
        self.check_usable()
        return follow_scrub(self._requests, bookie_id, begun, timeout_s, tell)
