"""Who audits: one ephemeral node, which one candidate has and the others watch.

A *term* is a time in which this candidate leads; terms have growing numbers. A term ends as soon as
anything at all is heard of the session: suspended counts as lost. If the node turns out to be still
ours, a new term begins. So nothing that was learnt in one session is acted on in another one, and
whoever compares ``term()`` with the number that it began with is only too careful. A term is
advice: two may believe for a moment that they lead, and what a leader does has to be safe all the
same (reports are merged, not overwritten).

The candidate's own thread takes all steps; news only wakes it. It compares what is there with the
token of its last attempt, so it does not matter which reply was lost.

Decisions: BookKeeper has a queue of ephemeral sequential votes, so that the one who waits longest
follows. Here whoever is quickest does: it does not matter who audits.

Source: BookKeeper's ``ZkLedgerAuditorManager``, ``AuditorElector``.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from uuid import uuid4

from zbk.errors import (
    ClientClosedError,
    MetadataConflictError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    ZbkError,
)
from zbk.metadata.paths import AUDITOR_LEADER
from zbk.metadata.records.compare_and_swap import find_node
from zbk.metadata.stores.store import MetadataStore, Node, SessionState
from zbk.metadata.values import AuditorVote, decode, encode
from zbk.system.clock import wall_ms

RETRY_S: Final = 0.25
RECHECK_S: Final = 5.0
"""Who has nothing to do looks again all the same: a watch tells the last state, so of a node that
was made and removed meanwhile it tells nothing."""

CLOSE_TIMEOUT_S: Final = 5.0

LOG = logging.getLogger("zbk.metadata")


def read_auditor(store: MetadataStore) -> AuditorVote | None:
    """Return who audits now, or ``None`` if nobody does."""
    node = find_node(store, AUDITOR_LEADER)
    return None if node is None else decode(AuditorVote, node.value, AUDITOR_LEADER)


class AuditorElection:
    """One candidate. It stands until it is closed.

    ``on_change`` is told the number of each term that begins, and ``None`` when it ends; one at a
    time and in order, from the store's callback thread or from this object's own: it must not
    block, and not call the store. What damaged votes there are is logged.
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
        self._store = store
        self._candidate_id = candidate_id
        self._on_change = on_change
        self._retry_s = retry_s
        self._recheck_s = recheck_s
        self._changed = threading.Condition()
        self._telling = threading.RLock()  # held while ``on_change`` runs; taken before the other
        self._session_number = 0  # grows with all news of the session
        self._term_count = 0
        self._term: int | None = None
        self._tried = b""  # what we last tried to put there
        self._former: set[bytes] = set()  # and before: the store may apply it later than that
        self._is_due = True
        self._is_closing = False
        self._session_watch = store.on_session(self._note_session)
        self._node_watch = store.watch_node(AUDITOR_LEADER, self._note_node)
        self._thread = threading.Thread(target=self._run, name="zbk-election", daemon=True)
        self._thread.start()

    def term(self) -> int | None:
        """Return the number of the term that lasts now; ``None``: we do not lead, or may not."""
        with self._changed:
            term = self._term
        return term if self._store.session_state() is SessionState.CONNECTED else None

    def close(self) -> None:
        """Stand no more; if we lead, somebody else can at once. Twice is fine."""
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

    # ------------------------------------------------------------------ the store's thread

    def _note_session(self, _state: SessionState) -> None:
        with self._changed:
            self._session_number += 1
            self._is_due = True
            self._changed.notify_all()
        self._end_term()

    def _note_node(self, _node: Node | None) -> None:
        with self._changed:
            self._is_due = True
            self._changed.notify_all()

    # ------------------------------------------------------------------ the candidate's thread

    def _run(self) -> None:
        retry_s = self._recheck_s
        while True:
            with self._changed:
                if not self._is_due and not self._is_closing:
                    self._changed.wait(retry_s)
                if self._is_closing:
                    return
                self._is_due = False
            try:
                retry_s = self._recheck_s if self._reconcile() else self._retry_s
            except MetadataUnavailableError:
                retry_s = self._retry_s
            except ClientClosedError:  # the store was closed first: our node went with it
                self._end_term()
                return
            except ZbkError:
                LOG.exception("the election of the auditor failed; trying again")
                retry_s = self._retry_s

    def _reconcile(self) -> bool:
        """Run one step; true if there is nothing to do until there is news."""
        with self._changed:
            session_number = self._session_number
            tried = self._tried
        if self._store.session_state() is not SessionState.CONNECTED:
            return False
        try:
            node = self._store.get(AUDITOR_LEADER)
        except NoNodeError:
            self._end_term()
            self._try_to_lead()
            return False  # look at what became of it
        if not tried or node.value != tried:
            self._end_term()
            if node.value not in self._former:
                return True
            with suppress(MetadataConflictError):
                self._store.delete(AUDITOR_LEADER, node.version)
            return False
        return self._begin_term(session_number)

    def _try_to_lead(self) -> None:
        vote = AuditorVote(candidate_id=self._candidate_id, token=uuid4().hex, elected_ms=wall_ms())
        value = encode(vote)
        with self._changed:
            self._former.add(self._tried)
            self._tried = value  # before the attempt: its reply may be lost
            self._is_due = True
        with suppress(NodeExistsError):
            self._store.create(AUDITOR_LEADER, value, is_ephemeral=True, make_parents=True)

    def _remove_ours(self) -> None:
        node = self._store.get(AUDITOR_LEADER)
        if self._tried and node.value == self._tried:
            self._store.delete(AUDITOR_LEADER, node.version)

    # ------------------------------------------------------------------ terms

    def _begin_term(self, session_number: int) -> bool:
        with self._telling:
            with self._changed:
                if session_number != self._session_number or self._is_closing:
                    return False  # what we have seen may be gone by now: look again
                if self._term is not None:
                    return True
                self._term_count += 1
                self._term = self._term_count
            self._tell(self._term)
            return True

    def _end_term(self) -> None:
        with self._telling:
            with self._changed:
                if self._term is None:
                    return
                self._term = None
            self._tell(None)

    def _tell(self, term: int | None) -> None:
        try:
            self._on_change(term)
        except Exception:
            LOG.exception("the callback of an election failed")
