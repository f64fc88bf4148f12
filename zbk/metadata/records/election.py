"""The election of the auditor: one ephemeral node, which one candidate holds and the others watch.

A *term* is a time in which this candidate leads; terms have growing numbers. Every event of the
session ends the term: suspended counts as lost. If the node still exists, a new term begins. So an
auditor never acts in one session on what it learned in another, and a comparison of ``term()`` with
the number at the start errs on the safe side. A term is advice: two candidates may believe for a
moment that they lead, so every action of an auditor has to be safe in that case, too (reports are
merged, not overwritten).

The candidate's own thread takes all steps (``node_keeper``). It compares the node with its own
attempts (``node_claim``), so a lost reply does no harm.

Decisions: BookKeeper has a queue of ephemeral sequential votes, and the candidate that has waited
longest follows. Here the fastest one follows, because any process may audit.

Source: BookKeeper's ``ZkLedgerAuditorManager``, ``AuditorElector``.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final
from uuid import uuid4

from zbk.errors import (
    ClientClosedError,
    MetadataAccessError,
    MetadataConflictError,
    MetadataUnavailableError,
    NodeExistsError,
    ZbkError,
)
from zbk.metadata.paths import AUDITOR_LEADER
from zbk.metadata.records.compare_and_swap import find_node
from zbk.metadata.records.node_claim import Holder, NodeClaim
from zbk.metadata.records.node_keeper import NodeKeeper
from zbk.metadata.stores.store import MetadataStore, SessionState
from zbk.metadata.values import AuditorVote, decode, encode
from zbk.system.clock import wall_ms
from zbk.system.event_log import EventLog

RETRY_S: Final = 0.25
RECHECK_S: Final = 5.0
"""The interval of reads without an event: a watch reports the last state only, so it misses a node
that was created and removed in between."""

CLOSE_TIMEOUT_S: Final = 5.0

LOG = EventLog("zbk.metadata")


def read_auditor(store: MetadataStore) -> AuditorVote | None:
    """Return the vote of the present auditor, or ``None`` if there is none."""
    node = find_node(store, AUDITOR_LEADER)
    return None if node is None else decode(AuditorVote, node.value, AUDITOR_LEADER)


class AuditorElection(NodeKeeper):
    """One candidate, until it is closed.

    ``on_change`` receives the number of each term that begins, and ``None`` when it ends; one at a
    time and in order, from the store's callback thread or from this object's own. It must not block
    and must not call the store. Damaged votes are logged.
    """

    def __init__(
        self,
        store: MetadataStore,
        candidate_id: str,
        on_change: Callable[[int | None], None],
        *,
        retry_s: float = RETRY_S,
        recheck_s: float = RECHECK_S,
    ) -> None:
        self._candidate_id = candidate_id
        self._on_change = on_change
        self._term_count = 0
        self._term: int | None = None
        self._claim = NodeClaim()
        self._refusal = ""  # the last one that was logged
        super().__init__(store, "zbk-election", retry_s, recheck_s)
        self._node_watch = store.watch_node(AUDITOR_LEADER, self._note_node)

    def term(self) -> int | None:
        """Return the number of the present term, or ``None`` if this candidate may not lead."""
        with self._changed:
            term = self._term
        return term if self._store.session_state() is SessionState.CONNECTED else None

    def close(self) -> None:
        """Withdraw; another candidate can lead at once. Closing twice is allowed."""
        with self._changed:
            was_closing, self._is_closing = self._is_closing, True
            self._changed.notify_all()
        self._thread.join(CLOSE_TIMEOUT_S)
        if was_closing:
            return
        self._session_watch.cancel()
        self._node_watch.cancel()
        self._end_term()
        with suppress(MetadataConflictError, MetadataUnavailableError, ClientClosedError):
            self._remove_ours()

    # ------------------------------------------------------------------ steps and events

    def _on_session(self, _state: SessionState) -> None:
        self._end_term()

    def _on_store_closed(self) -> None:
        self._end_term()

    def _may_retry(self, error: ZbkError) -> bool:
        self._log(error)
        return True

    def _on_refused(self, error: MetadataAccessError) -> None:
        if str(error) != self._refusal:
            self._refusal = str(error)
            self._log(error)

    def _log(self, error: ZbkError) -> None:
        LOG.error("election.failed", "the election of the auditor failed; retrying", exc_info=error)

    def _reconcile(self) -> bool:
        with self._changed:
            session_number = self._session_number
        if self._store.session_state() is not SessionState.CONNECTED:
            return False
        node = find_node(self._store, AUDITOR_LEADER)
        holder = self._claim.holder(None if node is None else node.value)
        if holder is Holder.OURS:
            return self._begin_term(session_number)
        self._end_term()
        if node is None:
            self._try_to_lead()
        elif holder is Holder.FORMER:
            with suppress(MetadataConflictError):
                self._store.delete(AUDITOR_LEADER, node.version)
        return holder is Holder.OTHER

    def _try_to_lead(self) -> None:
        vote = AuditorVote(candidate_id=self._candidate_id, token=uuid4().hex, elected_ms=wall_ms())
        value = encode(vote)
        self._claim.begin(value)
        try:
            with suppress(NodeExistsError):
                self._store.create(AUDITOR_LEADER, value, is_ephemeral=True, make_parents=True)
        except MetadataAccessError:
            self._claim.refused()
            raise
        self._wake()

    def _remove_ours(self) -> None:
        node = self._store.get(AUDITOR_LEADER)
        if self._claim.holder(node.value) is Holder.OURS:
            self._store.delete(AUDITOR_LEADER, node.version)

    # ------------------------------------------------------------------ terms

    def _begin_term(self, session_number: int) -> bool:
        with self._reporting:
            with self._changed:
                if session_number != self._session_number or self._is_closing:
                    return False  # the node may be gone by now: look again
                if self._term is not None:
                    return True
                self._term_count += 1
                self._term = self._term_count
            self._tell(self._term)
            return True

    def _end_term(self) -> None:
        with self._reporting:
            with self._changed:
                if self._term is None:
                    return
                self._term = None
            self._tell(None)

    def _tell(self, term: int | None) -> None:
        try:
            self._on_change(term)
        except Exception:
            LOG.exception(
                "metadata.callback_failed",
                "the callback of %(source)s failed",
                source="an election",
            )
