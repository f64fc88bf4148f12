"""Who sees everything that autorecovery does: whether it makes anything worse.

    I26     a change of the metadata never takes a durable replica of an entry out of its write set
            without putting another one in; what takes a bookie's place has every entry that is due
    grace   no writer is fenced before it had the grace period to leave a lost bookie
    term    only who leads reports lost bookies: not in a session that is in doubt
    brake   when many bookies vanish at once, none is reported before the auditor looked again

That what is copied are the bytes that were written is I30's matter (``BookieOracle``, ``World``).
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tests.simulation.bookie import SimulatedBookie
from tests.simulation.kernel import MS
from tests.simulation.live_session import LiveSession
from tests.simulation.world import World
from zbk.metadata.paths import AUDITOR_LEADER, AVAILABLE
from zbk.metadata.records.underreplication import MissingReason, UnderreplicationStore
from zbk.protocol.entry.spans import Span
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.copy_order import ends_of
from zbk.protocol.repair.repair_effects import ReplaceBookie

AT_ONCE_US: Final = 50 * MS
"""Bookies that vanish within so long vanish together."""

NEWS_US: Final = 5 * MS
"""What vanished so lately an auditor may not have heard of when it began to report another one."""

Absence = list[int]
"""When a bookie vanished, and, if it did, came back."""


class RepairOracle:
    """Watches the metadata and the registrations of one run."""

    def __init__(self, world: World, *, grace_ms: int, hold_ms: int) -> None:
        self._world = world
        self._grace_us = grace_ms * MS
        self._hold_us = hold_ms * MS
        self._known: dict[int, LedgerMetadata] = dict(world.metadata.current)
        self._last_since_us: dict[int, tuple[Fragment, int]] = {}
        self._absences: dict[str, list[Absence]] = defaultdict(list)
        self._registered: frozenset[str] = frozenset()
        self._seen_us: dict[str, int] = {}  # when an auditor last saw that a bookie was there
        self._held_us = -1  # since when an auditor waits
        self._begun_us: dict[str, int] = {}  # by bookie: when an auditor began to report it
        self._stalled_us = -(1 << 62)  # when the store did not answer one last
        self._past_holds: list[tuple[int, int]] = []  # that are over: from when until when
        self.attempt_counts: dict[int, int] = defaultdict(int)
        world.metadata.watchers.append(self._on_metadata)
        world.metadata.tree.begin_session(self)

    def attempted(self, ledger_id: int) -> None:
        """Note that a worker has taken a task."""
        self.attempt_counts[ledger_id] += 1

    # ------------------------------------------------------------------ registrations

    def look_again(self, paths: Collection[str]) -> None:
        """Note who comes and goes; the tree calls this."""
        if AVAILABLE not in paths:
            return
        node = self._world.metadata.tree.find(AVAILABLE)
        assert node is not None, "it was made with the cluster"
        now_us = self._world.kernel.now_us
        for bookie_id in sorted(self._registered - node.children):
            self._absences[bookie_id].append([now_us])
        for bookie_id in sorted(node.children - self._registered):
            absences = self._absences[bookie_id]
            if absences and absences[-1] == [now_us]:  # its next life has taken its place
                absences.pop()
            elif absences:
                absences[-1].append(now_us)
        self._registered = node.children

    def _was_absent(self, bookie_id: str, first_us: int, last_us: int) -> bool:
        """Return whether a bookie was not registered at some time between the two."""
        forever_us = last_us + 1
        return any(
            max(first_us, absence[0]) <= min(last_us, (*absence[1:], forever_us)[0])
            for absence in self._absences[bookie_id]
        )

    # ------------------------------------------------------------------ metadata

    def _on_metadata(self, new: LedgerMetadata) -> None:
        now_us = self._world.kernel.now_us
        since = self._last_since_us.get(new.ledger_id)
        if since is None or since[0] != new.last_fragment:
            self._last_since_us[new.ledger_id] = (new.last_fragment, now_us)
        old = self._known.get(new.ledger_id)
        self._known[new.ledger_id] = new
        if old is None:
            return
        after = {fragment.first_entry_id: fragment for fragment in new.fragments}
        for before, end in zip(old.fragments, ends_of(old), strict=True):
            now = after.get(before.first_entry_id, before)
            if end is not None and now.bookies != before.bookies:
                self._check_counts(new, before, now, end)

    def _check_counts(
        self, metadata: LedgerMetadata, before: Fragment, after: Fragment, end: int
    ) -> None:
        joined = [one for one in after.bookies if one not in before.bookies]
        if any(self._may_have_lost(self._world.bookie(one)) for one in joined):
            return  # between the copy and this change
        for entry_id in range(before.first_entry_id, end + 1):
            slots = metadata.quorum.write_set(entry_id)
            count_before, count_after = (
                sum(self._holds(one.bookies[slot], metadata.ledger_id, entry_id) for slot in slots)
                for one in (before, after)
            )
            if count_after < count_before:
                self._world.violated(
                    "I26",
                    f"L{metadata.ledger_id}/{entry_id} had {count_before} replicas with {before}, "
                    f"and has {count_after} with {after}",
                )
                return

    def _holds(self, bookie_id: str, ledger_id: int, entry_id: int) -> bool:
        bookie = self._world.bookie(bookie_id)
        return not bookie.is_lost and bookie.oracle.holds(ledger_id, entry_id)

    @staticmethod
    def _may_have_lost(bookie: SimulatedBookie) -> bool:
        """Return whether a bookie may have lost what was copied to it."""
        return bookie.is_lost or bookie.oracle.is_damaged or bookie.oracle.was_wiped

    # ------------------------------------------------------------------ what workers do

    def check_target(self, current: LedgerMetadata, wanted: ReplaceBookie) -> None:
        """Judge, just before the change, that the new bookie has all that is due."""
        target = self._world.bookie(wanted.new)
        if self._may_have_lost(target):
            return
        starts = [fragment.first_entry_id for fragment in current.fragments]
        end = ends_of(current)[starts.index(wanted.first_entry_id)]
        if end is None:
            self._world.violated("I26", f"a bookie of the open fragment of {current} is replaced")
            return
        for entry_id in range(wanted.first_entry_id, end + 1):
            is_due = current.quorum.holds(wanted.slot, entry_id)
            if is_due and not target.oracle.holds(current.ledger_id, entry_id):
                name = f"L{current.ledger_id}/{entry_id}"
                text = f"{wanted.new} takes the place of {wanted.old} without {name}"
                self._world.violated("I26", text)
                return

    def check_grace(self, current: LedgerMetadata) -> None:
        """Judge, just before the change, that the writer has had its time."""
        now_us = self._world.kernel.now_us
        fragment, since_us = self._last_since_us[current.ledger_id]
        assert fragment == current.last_fragment, "every version is seen"
        last_us = now_us - self._grace_us
        if last_us < since_us or not any(
            self._was_absent(bookie_id, since_us, last_us) for bookie_id in fragment.bookies
        ):
            self._world.violated(
                "grace",
                f"L{current.ledger_id} is fenced, {fragment} is from {(now_us - since_us) // MS} "
                f"ms ago, and nobody in it was lost {self._grace_us // MS} ms ago",
            )

    # ------------------------------------------------------------------ what auditors do

    def seen(self, bookie_ids: Collection[str], now_us: int) -> None:
        """Note whom an auditor takes to be there from now on."""
        self._seen_us |= dict.fromkeys(bookie_ids, now_us)

    def held(self, now_us: int) -> None:
        """Note that an auditor waits before it looks again."""
        self._held_us = now_us

    def begun(self, bookie_ids: Collection[str], now_us: int) -> None:
        """Note that an auditor begins to report these."""
        self._begun_us |= dict.fromkeys(bookie_ids, now_us)

    def released(self, now_us: int) -> None:
        """Note that it has looked again: who vanished meanwhile is not held any more."""
        self._past_holds.append((self._held_us, now_us))

    def stalled(self, now_us: int) -> None:
        """Note that the store has not answered an auditor: nor of who has vanished, perhaps."""
        self._stalled_us = now_us

    def reported(
        self,
        session: LiveSession,
        ledger_id: int,
        bookie_ids: Collection[str],
        reason: MissingReason,
    ) -> None:
        """Judge a report."""
        leader = self._world.metadata.tree.find(AUDITOR_LEADER)
        if leader is None or leader.session_id != session.session_id:
            self._world.violated("term", f"L{ledger_id} is reported by who does not lead")
        now_us = self._world.kernel.now_us
        for bookie_id in sorted(bookie_ids) if reason is MissingReason.LOST else ():
            absences = self._absences[bookie_id]
            if not absences:
                self._world.violated("brake", f"{bookie_id} is reported, and was never lost")
            elif self._is_storm(bookie_id, now_us):
                text = f"{bookie_id} vanished with many others, and is reported at once"
                self._world.violated("brake", text)

    def _vanished_us(self, bookie_id: str) -> int:
        """Return since when a bookie is lost to auditors: who came unseen was never back."""
        *earlier, last = self._absences[bookie_id]
        vanished_us = last[0]
        for absence in reversed(earlier):
            if self._seen_us.get(bookie_id, -1) >= absence[1]:
                break
            vanished_us = absence[0]
        return vanished_us

    def _is_storm(self, bookie_id: str, now_us: int) -> bool:
        """Return whether many vanished, so lately that no hold can have ended since."""
        vanished_us = self._vanished_us(bookie_id)
        begun_us = self._begun_us.get(bookie_id, 0)
        known_us = begun_us if now_us - begun_us <= NEWS_US else now_us
        together = [
            other
            for other, absences in self._absences.items()
            if any(
                abs(absence[0] - vanished_us) <= AT_ONCE_US and known_us - absence[0] > NEWS_US
                for absence in absences
            )
        ]
        is_many = len(together) > max(1, len(self._absences.keys() | self._registered) // 5)
        was_held = any(begun < vanished_us <= ended for begun, ended in self._past_holds)
        was_told = self._stalled_us < vanished_us - AT_ONCE_US
        return is_many and was_told and not was_held and now_us - vanished_us < self._hold_us


class CheckedTasks(UnderreplicationStore):
    """The tasks as an auditor sees them; what it reports is judged."""

    def __init__(self, session: LiveSession, oracle: RepairOracle) -> None:
        super().__init__(session)
        self._session = session
        self._oracle = oracle

    def report(
        self,
        ledger_id: int,
        bookie_ids: Collection[str],
        reason: MissingReason,
        *,
        is_quiet: bool = False,
        ranges: Mapping[str, Sequence[Span]] | None = None,
    ) -> bool:
        """Report, and have it judged."""
        is_news = super().report(ledger_id, bookie_ids, reason, is_quiet=is_quiet, ranges=ranges)
        self._oracle.reported(self._session, ledger_id, bookie_ids, reason)
        return is_news
