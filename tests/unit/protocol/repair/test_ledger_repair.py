"""LedgerRepair: golden stories, and what it must never do."""

from pathlib import Path
from typing import assert_never

import msgspec
import pytest

from tests.support.golden import run_script, scripts
from zbk.errors import (
    BookieUnavailableError,
    LedgerRecoveryError,
    MetadataConflictError,
    NoSuchLedgerError,
    UnknownLedgerStateError,
)
from zbk.protocol.entry.words import DigestType, LedgerState, LedgerType
from zbk.protocol.ledger.changes import cut_fragment, replace_bookie
from zbk.protocol.ledger.metadata import Fragment, LedgerMetadata
from zbk.protocol.repair.copy_order import LostEntries
from zbk.protocol.repair.fragment_copy_events import CopyResult
from zbk.protocol.repair.holdings import AskHoldings, Holdings
from zbk.protocol.repair.ledger_repair import LedgerRepair
from zbk.protocol.repair.repair_effects import (
    BookieReplaced,
    ChooseTarget,
    CopyFragment,
    CutFragment,
    LedgerRecovered,
    LedgerSeen,
    LookAtLedger,
    RecoverLedger,
    RepairAim,
    RepairEffect,
    RepairLimits,
    RepairResult,
    ReplaceBookie,
    TargetChosen,
    WaitUntil,
)

GRACE_MS = 1_000


class RepairScript:
    """The commands a golden script may use. The grace period is 1000 ms."""

    def __init__(self) -> None:
        self.do_ledger("3", "3", "2")

    def __call__(self, words: list[str]) -> str:
        name, *args = words
        line = getattr(self, f"do_{name.replace('-', '_')}")(*args)
        return f"{' '.join(words)}:" + (f"\n    {line}" if line else "")

    # -------------------------------------------------------------- the world

    def do_ledger(self, *sizes: str) -> None:
        """Begin anew with a ledger of these sizes, closed and empty, on a, b, c, ..."""
        self.sizes = tuple(map(int, sizes))
        self.fragments = [Fragment(0, tuple("abcdef"[: self.sizes[0]]))]
        self.state, self.last_entry_id = LedgerState.CLOSED, -1
        self.digest_type = DigestType.XXH3
        self.key = b"k" * 16
        self.registered = frozenset[str]()
        self.aim = RepairAim(ledger_id=7)
        self.now_ms = 0

    def do_fragment(self, first: str, *bookies: str) -> None:
        """Add a fragment, or put it in the place of the one that starts there."""
        kept = [f for f in self.fragments if f.first_entry_id != int(first)]
        self.fragments = [*kept, Fragment(int(first), bookies)]

    def do_closed(self, last_entry_id: str) -> None:
        """Close the ledger there."""
        self.state, self.last_entry_id = LedgerState.CLOSED, int(last_entry_id)

    def do_open(self) -> None:
        """Open the ledger to a writer."""
        self.state = LedgerState.OPEN

    def do_recovering(self) -> None:
        """Put the ledger into recovery by another client."""
        self.state = LedgerState.IN_RECOVERY

    def do_digest(self, name: str) -> None:
        """Give the ledger another digest type."""
        self.digest_type = DigestType(name)

    def do_format_1(self) -> None:
        """Remove the key from the metadata."""
        self.key = b""

    def do_there(self, *bookies: str) -> None:
        """Register these bookies."""
        self.registered = frozenset(bookies)

    def do_suspect(self, *bookies: str) -> None:
        """Report these bookies."""
        self.aim = msgspec.structs.replace(self.aim, suspects=frozenset(bookies))

    def do_compare(self, *bookies: str) -> None:
        """Report that these bookies, or ``all``, may lack something: they are not lost."""
        names = None if bookies == ("all",) else frozenset(bookies)
        suspects = self.aim.suspects or frozenset()
        self.aim = msgspec.structs.replace(self.aim, suspects=suspects, to_compare=names)

    def do_leave(self, *bookies: str) -> None:
        """Empty these bookies."""
        self.aim = msgspec.structs.replace(
            self.aim, suspects=frozenset(bookies), to_leave=frozenset(bookies)
        )

    def do_damaged(self, *bookies: str) -> None:
        """Report that these bookies have damaged replicas, and besides nothing."""
        names = frozenset(bookies)
        suspects = names.union(self.aim.suspects or ())
        self.aim = msgspec.structs.replace(
            self.aim, suspects=suspects, to_leave=names, to_mend=names
        )

    # -------------------------------------------------------------- answers

    def do_start(self) -> str:
        """Begin."""
        self.repair = LedgerRepair(self.aim, RepairLimits(grace_ms=GRACE_MS, look_count_max=5))
        return self._tell(self.repair.begin())

    def do_stop(self) -> str:
        """Stop."""
        self.repair.stop()
        return self._tell(None)

    def do_seen(self) -> str:
        """Answer with the ledger as it is."""
        return self._answer(
            LedgerSeen(self.metadata(), self.registered, self.asked_ms, self.now_ms)
        )

    def do_gone(self) -> str:
        """Answer that it was deleted."""
        return self._answer(NoSuchLedgerError(7))

    def do_not_seen(self) -> str:
        """Answer with an error."""
        return self._answer(BookieUnavailableError("store", "lost"))

    def do_at(self, now_ms: str) -> str:
        """Pass time until then."""
        self.now_ms = int(now_ms)
        return self._answer(self.now_ms)

    def do_holds(self, *spans: str) -> str:
        """Answer what the bookie holds: ``0-4``."""
        return self._answer(Holdings(tuple(_span(one) for one in spans)))

    def do_holds_up_to(self, last: str, *spans: str) -> str:
        """Answer what the bookie holds up to an entry: the rest is to be asked for again."""
        return self._answer(Holdings(tuple(_span(one) for one in spans), int(last)))

    def do_limbo_holds(self, *spans: str) -> str:
        """Answer what a bookie in limbo holds."""
        return self._answer(Holdings(tuple(_span(one) for one in spans), is_in_limbo=True))

    def do_silent(self) -> str:
        """Answer that the bookie does not say what it holds."""
        return self._answer(BookieUnavailableError("?", "silent"))

    def do_target(self, bookie: str) -> str:
        """Answer with a bookie, with ``none``, or with ``others``: it is theirs to do."""
        named = None if bookie in ("none", "others") else bookie
        return self._answer(TargetChosen(named, is_skipped=bookie == "others"))

    def do_copied(self, count: str) -> str:
        """Answer that all was copied."""
        return self._answer(CopyResult(copied_count=int(count), copied_size=100))

    def do_lost(self, *spans: str) -> str:
        """Answer that some entries are nowhere: ``0-4``."""
        lost = tuple(LostEntries(a, b, b - a + 1, "gone") for a, b in map(_span, spans))
        return self._answer(CopyResult(lost=lost))

    def do_source_fails(self) -> str:
        """Answer that a replica could not be read now."""
        error = BookieUnavailableError("source", "away")
        return self._answer(CopyResult(source_error=error))

    def do_limbo_fails(self) -> str:
        """Answer that a replica could not be read: its bookie is in limbo."""
        return self._answer(CopyResult(source_error=UnknownLedgerStateError(7, "?")))

    def do_target_fails(self) -> str:
        """Answer that the target did not take it."""
        error = BookieUnavailableError("target", "full")
        return self._answer(CopyResult(target_error=error))

    def do_replaced(self) -> str:
        """Make the change that was asked for, and answer."""
        wanted = self.repair.effect
        assert isinstance(wanted, ReplaceBookie)
        changed = replace_bookie(
            self.metadata(), wanted.first_entry_id, wanted.slot, wanted.old, wanted.new
        )
        if changed is not None:
            self.fragments = list(changed.fragments)
        return self._answer(BookieReplaced(self.metadata(), changed is not None))

    def do_cut(self) -> str:
        """Cut the fragment as was asked for, and answer."""
        wanted = self.repair.effect
        assert isinstance(wanted, CutFragment)
        changed = cut_fragment(self.metadata(), wanted.first_entry_id, wanted.starts)
        if changed is not None:
            self.fragments = list(changed.fragments)
        return self._answer(self.metadata())

    def do_refused(self) -> str:
        """Answer that the metadata could not be changed."""
        return self._answer(MetadataConflictError("ledger 7", "changed"))

    def do_recovered(self, last_entry_id: str) -> str:
        """Close the ledger, and answer."""
        self.do_closed(last_entry_id)
        return self._answer(LedgerRecovered())

    def do_not_recovered(self) -> str:
        """Answer that it is not closed."""
        return self._answer(LedgerRecoveryError(7, "too few"))

    # -------------------------------------------------------------- inside

    def metadata(self) -> LedgerMetadata:
        """Return the ledger as it is."""
        is_closed = self.state is LedgerState.CLOSED
        return LedgerMetadata(
            ledger_id=7,
            ensemble_size=self.sizes[0],
            write_quorum_size=self.sizes[1],
            ack_quorum_size=self.sizes[2],
            ledger_type=LedgerType.PD_JOURNAL,
            digest_type=self.digest_type,
            password_digest=b"",
            fragments=tuple(self.fragments),
            created_ms=0,
            creation_token="t",
            state=self.state,
            last_entry_id=self.last_entry_id if is_closed else None,
            length=0 if is_closed else None,
            ledger_key=self.key,
        )

    def _answer(self, value: object) -> str:
        return self._tell(self.repair.answer(value))

    def _tell(self, effect: RepairEffect | None) -> str:
        self.asked_ms = self.now_ms
        return _result(self.repair.result) if effect is None else _line(effect)


def _span(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _line(effect: RepairEffect) -> str:
    match effect:
        case LookAtLedger():
            text = "look"
        case WaitUntil(until_ms):
            text = f"wait until {until_ms}"
        case AskHoldings(bookie_id, (first, last)):
            text = f"what does {bookie_id} hold of {first}-{last}?"
        case ChooseTarget(ensemble, slot, exclude):
            besides = f", not {','.join(sorted(exclude))}" if exclude else ""
            text = f"choose for slot {slot} of {','.join(ensemble)}{besides}"
        case CopyFragment(order):
            spans = " ".join(f"{a}-{b}" for a, b in order.spans)
            sources = ",".join(order.fragment.bookies[slot] for slot in order.sources)
            text = f"copy {order.entry_count} of {spans} from {sources} to {order.target}"
        case ReplaceBookie(first, _slot, old, new):
            text = f"replace {old} by {new} at {first}"
        case CutFragment(first, starts):
            text = f"cut the fragment at {first} at {','.join(map(str, starts))}"
        case RecoverLedger():
            text = "recover"
        case _:
            assert_never(effect)
    return text


def _result(result: RepairResult) -> str:
    if result.is_gone:
        return "end: deleted"
    parts = [
        "whole" if result.is_whole else "not whole",
        f"{result.replaced_count} replaced",
        f"{result.copied_count} copied",
    ]
    parts += [f"mended: {','.join(sorted(result.mended))}"] if result.mended else []
    parts += ["recovered"] if result.is_recovered else []
    parts += [f"{result.skipped_count} skipped"] if result.skipped_count else []
    parts += ["stopped"] if result.is_stopped else []
    parts += [f"waits for {','.join(sorted(result.awaited))}"] if result.awaited else []
    parts += [f"unrepairable: {result.unrepairable}"] if result.unrepairable else []
    parts += [f"error: {result.error}"] if result.error else []
    return "end: " + ", ".join(parts)


@pytest.mark.parametrize("path", scripts("replication"), ids=lambda path: path.stem)
def test_golden(path: Path, rewrite_golden: bool) -> None:
    """B21, B41, B42: among the stories are empty fragments, single replicas, late changes."""
    run_script(path, RepairScript(), rewrite=rewrite_golden)


def test_answers_after_the_end_are_ignored() -> None:
    repair = LedgerRepair(RepairAim(ledger_id=7))
    repair.begin()
    repair.stop()

    assert repair.result.is_stopped
    assert repair.answer(NoSuchLedgerError(7)) is None
    assert repair.result.is_stopped


def test_a_repair_that_was_stopped_before_it_began_calls_nothing_whole() -> None:
    repair = LedgerRepair(RepairAim(ledger_id=7))
    repair.stop()

    assert not repair.result.is_whole


def test_the_grace_period_begins_when_the_fragment_is_seen_and_not_when_it_is_asked_for() -> None:
    """A slow metadata store takes nothing away from the writer: it may have begun just now."""
    metadata = LedgerMetadata(
        ledger_id=7,
        ensemble_size=2,
        write_quorum_size=2,
        ack_quorum_size=1,
        ledger_type=LedgerType.PD_JOURNAL,
        digest_type=DigestType.XXH3,
        password_digest=b"",
        ledger_key=bytes(16),
        fragments=(Fragment(0, ("a", "lost")),),
        created_ms=0,
        creation_token="token",
    )
    repair = LedgerRepair(RepairAim(ledger_id=7), RepairLimits(grace_ms=GRACE_MS))
    repair.begin()

    waits = repair.answer(LedgerSeen(metadata, frozenset({"a"}), 0, GRACE_MS - 10))

    assert waits == WaitUntil(2 * GRACE_MS - 10)
