"""The auditor: golden stories."""

from pathlib import Path
from typing import assert_never

import pytest

from tests.support.audit_ledgers import ledger
from tests.support.golden import run_script, scripts
from zbk.errors import MetadataUnavailableError
from zbk.protocol.repair.audit import Auditor
from zbk.protocol.repair.audit_events import (
    AuditSettings,
    Bookies,
    BookiesSeen,
    BrakeApplied,
    BrakeReleased,
    CheckKind,
    CheckLedgers,
    ChecksRecalled,
    DelaySet,
    Effect,
    Event,
    JobAnswered,
    JobBegun,
    JobEnded,
    JobStalled,
    LedgersChecked,
    LedgersRead,
    LookAtBookies,
    Publish,
    ReadLedgers,
    RecallChecks,
    RememberCheck,
    Report,
    RetryFailed,
    RetryUnrepairable,
    SettingsChanged,
    Switched,
    TermBegun,
    TermEnded,
    TimePassed,
    Triggered,
    WakeAt,
)
from zbk.protocol.repair.lost_bookies import LostBookies
from zbk.protocol.repair.underreplicated import MissingReason


class AuditScript:
    """The commands a golden script may use. Windows and holds are 10 s, a day is 100 s."""

    def __init__(self) -> None:
        self.do_cluster()

    def __call__(self, words: list[str]) -> str:
        name, *args = words
        effects = getattr(self, f"do_{name.replace('-', '_')}")(*args)
        return "\n    ".join([f"{' '.join(words)}:", *map(_line, effects)])

    def do_cluster(self, *bookie_ids: str) -> list[Effect]:
        """Start with these bookies, all there, and an auditor that nobody has elected."""
        self.cookies = set(bookie_ids)
        self.present = set(bookie_ids)
        self.job = self.look = self.last_read = 0
        self.now_ms = 0
        return self.do_settings()

    def do_settings(self, *words: str) -> list[Effect]:
        """Take ``bookies=100000`` as an interval, ``delay=5000`` as the delay of one bookie."""
        given = dict(word.split("=") for word in words)
        delay_ms = int(given.pop("delay", 0))
        self.auditor = Auditor(
            AuditSettings(
                lost_bookie_delay_ms=delay_ms,
                brake_window_ms=10_000,
                brake_hold_ms=10_000,
                interval_ms={CheckKind(kind): int(ms) for kind, ms in given.items()},
            )
        )
        if self.cookies:
            self.do_pictured()
        return []

    def do_elected(self, term: str) -> list[Effect]:
        """Begin a term."""
        return self._say(TermBegun(int(term)))

    def do_settled(self) -> list[Effect]:
        """Begin a term whose hold is over, at 20 s."""
        self._say(TermBegun(1))
        self.do_at("20000")
        self.do_looked()
        return []

    def do_deposed(self) -> list[Effect]:
        """End the term."""
        return self._say(TermEnded())

    def do_at(self, now_ms: str) -> list[Effect]:
        """Pass time until then."""
        self.now_ms = int(now_ms)
        return self._say(TimePassed())

    def do_gone(self, *bookie_ids: str) -> list[Effect]:
        """Remove bookies, all in one picture."""
        self.present -= set(bookie_ids)
        return self.do_pictured()

    def do_back(self, *bookie_ids: str) -> list[Effect]:
        """Bring bookies back."""
        self.present |= set(bookie_ids)
        return self.do_pictured()

    def do_joined(self, *bookie_ids: str) -> list[Effect]:
        """Add bookies, before anything has looked at them."""
        self.cookies |= set(bookie_ids)
        self.present |= set(bookie_ids)
        return []

    def do_pictured(self) -> list[Effect]:
        """Show which bookies are there."""
        return self._say(BookiesSeen(0, self._bookies()))

    def do_looked(self) -> list[Effect]:
        """Answer the last look."""
        return self._say(BookiesSeen(self.look, self._bookies()))

    def _bookies(self) -> Bookies:
        return Bookies(frozenset(self.cookies), frozenset(self.present))

    def do_look_fails(self) -> list[Effect]:
        """Answer the last look with a failure."""
        return self._say(BookiesSeen(self.look, None))

    def do_unseen(self, *bookie_ids: str) -> list[Effect]:
        """Remove bookies, and fail the look at the change."""
        self.present -= set(bookie_ids)
        return self._say(BookiesSeen(0, None))

    def do_delay(self, delay_ms: str) -> list[Effect]:
        """Set the delay in the metadata store."""
        return self._say(DelaySet(None if delay_ms == "none" else int(delay_ms)))

    def do_disable(self) -> list[Effect]:
        """Suspend autorecovery."""
        return self._say(Switched(is_enabled=False))

    def do_enable(self) -> list[Effect]:
        """Resume autorecovery."""
        return self._say(Switched(is_enabled=True))

    def do_trigger(self) -> list[Effect]:
        """Ask as an operator."""
        return self._say(Triggered())

    def do_remembered(self, *words: str) -> list[Effect]:
        """Report how long ago checks ended: ``term=1 bookies=5000``."""
        ages = {one: int(ms) for one, ms in (word.split("=") for word in words)}
        term = ages.pop("term", 1)
        return self._say(ChecksRecalled(term, {CheckKind(k): ms for k, ms in ages.items()}))

    def do_retry_fails(self, term: str) -> list[Effect]:
        """Answer that unrepairable ledgers could not be handed out."""
        return self._say(RetryFailed(int(term)))

    def do_read(self, *words: str) -> list[Effect]:
        """Answer with ledgers: ``7=a,b``; ``more`` at the end: these are not the last."""
        is_last = "more" not in words
        pairs = [word.split("=") for word in words if word != "more"]
        found = tuple(ledger(int(one), tuple(names.split(","))) for one, names in pairs)
        last = found[-1].ledger_id if found else -1
        return self._say(JobAnswered(self.job, LedgersRead(found, last, is_last=is_last)))

    def do_checked(self, *words: str) -> list[Effect]:
        """Answer with what was found: ``7=a,b``; ``more``."""
        is_last = "more" not in words
        pairs = [word.split("=") for word in words if word != "more"]
        reports = tuple(
            Report(int(one), tuple(names.split(",")), MissingReason.CHECKED) for one, names in pairs
        )
        checked = LedgersChecked(
            reports=reports, last_ledger_id=50, is_last=is_last, ledger_count=40
        )
        return self._say(JobAnswered(self.job, checked))

    def do_published(self) -> list[Effect]:
        """Answer that it is done."""
        return self._say(JobAnswered(self.job, None))

    def do_fails(self, *words: str) -> list[Effect]:
        """Answer that it is not."""
        error = MetadataUnavailableError("store", " ".join(words))
        return self._say(JobAnswered(self.job, error))

    def _say(self, event: Event) -> list[Effect]:
        effects = self.auditor.handle(event, self.now_ms)
        for effect in effects:
            match effect:
                case LookAtBookies(look):
                    self.look = look
                case ReadLedgers(job) | CheckLedgers(job):
                    self.job = job
                case _:
                    pass
        return effects


def _line(effect: Effect) -> str:  # noqa: C901, PLR0911, PLR0912 - one line a kind
    match effect:
        case LookAtBookies():
            return "look?"
        case WakeAt(at_ms):
            return f"wake at {at_ms}"
        case RecallChecks():
            return "when did checks end?"
        case RememberCheck(kind):
            return f"remember {kind}"
        case ReadLedgers(_, after):
            return f"read ledgers after {after}?"
        case CheckLedgers(_, kind, after, lost):
            return f"check {kind} after {after}, without {_names(lost)}?"
        case Publish(_, term, reports):
            rows = [f"{one.ledger_id}: {_names(one.bookie_ids)} {one.reason}" for one in reports]
            return f"publish in term {term}: {'; '.join(rows)}"
        case RetryUnrepairable(returned):
            return f"retry what nobody could repair; back: {_names(returned)}"
        case BrakeApplied(lost, known_count, why, until_ms):
            return f"brake until {until_ms}: {why}; lost of {known_count}: {_names(lost)}"
        case BrakeReleased(lost):
            return f"brake released; lost: {_names(lost)}"
        case JobBegun(kind, lost):
            return f"begin {kind or 'scan'}: {_names(lost)}"
        case JobStalled(kind, reason):
            return f"stalled {kind or 'scan'}: {reason}"
        case JobEnded(result):
            return (
                f"end {result.kind or 'scan'}: {_names(result.lost)}; {result.ledger_count} "
                f"ledgers, {result.report_count} reported"
            )
        case _:
            assert_never(effect)


def _names(bookie_ids: object) -> str:
    assert isinstance(bookie_ids, tuple | frozenset)
    return " ".join(sorted(bookie_ids)) or "none"


def test_bookies_that_are_lost_at_the_first_look_have_not_vanished_just_now() -> None:
    bookies = LostBookies(
        AuditSettings(brake_window_ms=10_000, brake_hold_ms=1_000, interval_ms={})
    )
    cookies = frozenset("abcd")

    assert bookies.see(cookies, frozenset("ab"), 0) == (frozenset(), None)
    assert bookies.lost == {"c", "d"}
    assert not bookies.is_held

    _, brake = bookies.see(cookies, frozenset("a"), 1)
    assert brake is None, "one alone"


def test_one_picture_may_show_who_is_back_and_who_vanished_and_is_weighed_once() -> None:
    bookies = LostBookies(AuditSettings(brake_hold_ms=1_000, interval_ms={}))
    cookies = frozenset("abcde")
    bookies.see(cookies, cookies - {"a"}, 0)

    back, brake = bookies.see(cookies, frozenset("ade"), 1)

    assert back == {"a"}
    assert brake is not None
    assert (brake.lost, brake.until_ms) == (("b", "c"), 1_001)

    bookies.release()
    assert bookies.see(cookies, frozenset("ade"), 2_000) == (frozenset(), None)
    assert not bookies.is_held


def test_what_an_earlier_term_has_reported_is_reported_again() -> None:
    bookies = LostBookies(AuditSettings(interval_ms={}))
    bookies.see(frozenset("ab"), frozenset("a"), 0)
    bookies.note_reported(["b"])
    assert bookies.pending == frozenset()

    bookies.begin_term(1)
    bookies.release()

    assert bookies.ready(2, 0) == {"b"}


def test_a_stranger_that_got_a_cookie_is_no_stranger_any_more() -> None:
    bookies = LostBookies(AuditSettings(interval_ms={}))
    bookies.see(frozenset("a"), frozenset("a"), 0)
    bookies.note_strangers(["x"], 0)
    assert bookies.lost == {"x"}
    bookies.see(frozenset("ax"), frozenset("ax"), 1)

    bookies.see(frozenset("a"), frozenset("a"), 2)

    assert bookies.lost == frozenset(), "it was decommissioned"


@pytest.mark.parametrize("path", scripts("audit"), ids=lambda path: path.stem)
def test_golden(path: Path, rewrite_golden: bool) -> None:
    run_script(path, AuditScript(), rewrite=rewrite_golden)


def test_other_settings_plan_the_checks_anew() -> None:
    settings = AuditSettings(interval_ms={CheckKind.BOOKIES: 1_000})
    auditor = Auditor(settings)
    other = AuditSettings(interval_ms={CheckKind.BOOKIES: 50}, lost_bookie_delay_ms=7)
    assert not [
        one for one in auditor.handle(SettingsChanged(other), 0) if isinstance(one, RecallChecks)
    ]
    assert RecallChecks(1) in auditor.handle(TermBegun(1), 0)
    auditor.handle(ChecksRecalled(1, {CheckKind.BOOKIES: 0}), 0)

    assert RecallChecks(1) in auditor.handle(SettingsChanged(settings), 10)
    planned = auditor.handle(ChecksRecalled(1, {CheckKind.BOOKIES: 10}), 10)

    assert WakeAt(1_000) in planned
    quick = auditor.handle(SettingsChanged(other), 20)
    assert RecallChecks(1) in quick
    assert WakeAt(60) in auditor.handle(ChecksRecalled(1, {CheckKind.BOOKIES: 10}), 20)
    same = AuditSettings(interval_ms=other.interval_ms, brake_share_percent=50)
    assert RecallChecks(1) not in auditor.handle(SettingsChanged(same), 30)
