"""The auditor against a world in which bookies, sessions and the metadata store come and go."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.support.audit_ledgers import ledger
from zbk.errors import MetadataConflictError, MetadataUnavailableError
from zbk.protocol.repair.audit import Auditor
from zbk.protocol.repair.audit_events import (
    AuditSettings,
    Bookies,
    BookiesSeen,
    CheckKind,
    CheckLedgers,
    ChecksRecalled,
    Effect,
    Event,
    JobAnswered,
    LedgersChecked,
    LedgersRead,
    LookAtBookies,
    Publish,
    ReadLedgers,
    RecallChecks,
    Switched,
    TermBegun,
    TermEnded,
    TimePassed,
    Triggered,
    WakeAt,
)

HOLD_MS = 10_000
WINDOW_MS = 20_000
DELAY_MS = 5_000
BOOKIES = [f"b{number}" for number in range(6)]
LEDGERS = [ledger(number, (BOOKIES[number % 6], BOOKIES[(number + 1) % 6])) for number in range(9)]
PIECE = 4  # ledgers a step
SETTLE_STEP_COUNT_MAX = 400

bookies = st.sampled_from(BOOKIES)


class AuditMachine(RuleBasedStateMachine):
    """The world tells, late or not at all; it answers each question at most once."""

    def __init__(self) -> None:
        super().__init__()
        self.auditor = Auditor(
            AuditSettings(
                lost_bookie_delay_ms=DELAY_MS,
                brake_window_ms=WINDOW_MS,
                brake_hold_ms=HOLD_MS,
                interval_ms={CheckKind.BOOKIES: 500_000, CheckKind.LEDGERS: 300_000},
            )
        )
        self.now_ms = 0
        self.wake_ms: int | None = None
        self.term: int | None = None
        self.term_count = 0
        self.term_begun_ms = 0
        self.is_enabled = True
        self.gone_ms: dict[str, int] = {}  # the truth: since when
        self.seen_lost: set[str] = set()  # what the auditor was told last
        self.vanished_count = 0
        self.vanished_ms = 0  # the last time that one did, whether or not it came back
        self.was_triggered = False
        self.questions: list[LookAtBookies | ReadLedgers | CheckLedgers | Publish] = []
        self.published: set[tuple[int, str]] = set()  # in this term, since the bookie was lost
        self.say(self.picture())

    # ------------------------------------------------------------------ the world

    def say(self, event: Event) -> None:
        if isinstance(event, BookiesSeen) and event.bookies is not None:
            self.seen_lost = set(event.bookies.known - event.bookies.present)
        for effect in self.auditor.handle(event, self.now_ms):
            self.take(effect)

    def take(self, effect: Effect) -> None:
        match effect:
            case WakeAt(at_ms):
                assert at_ms > self.now_ms
                self.wake_ms = at_ms
            case Publish():
                self.judge(effect)
                self.questions.append(effect)
            case LookAtBookies() | ReadLedgers() | CheckLedgers():
                assert self.term is not None
                assert self.is_enabled
                self.questions.append(effect)
            case RecallChecks(term):
                self.say(ChecksRecalled(term, {}))
            case _:
                pass

    def judge(self, publish: Publish) -> None:
        assert self.term == publish.term, "never while another one leads, or nobody"
        assert self.is_enabled, "never while autorecovery rests"
        assert self.now_ms >= self.term_begun_ms + HOLD_MS, "never before the first look again"
        for report in publish.reports:
            assert set(report.bookie_ids) <= self.seen_lost, "only who is lost"
            assert set(report.bookie_ids) <= set(LEDGERS[report.ledger_id].fragments[0].bookies)
            if self.vanished_count == 1 and not self.was_triggered:
                assert len(report.bookie_ids) == 1
                assert self.now_ms - self.vanished_ms >= DELAY_MS, "the delay is its own"

    def picture(self, look: int = 0) -> BookiesSeen:
        present = frozenset(BOOKIES) - set(self.gone_ms)
        return BookiesSeen(look, Bookies(frozenset(BOOKIES), present))

    def answer(self, question: LookAtBookies | ReadLedgers | CheckLedgers | Publish) -> None:
        match question:
            case LookAtBookies(look, term):
                is_good = term == self.term
                self.say(self.picture(look) if is_good else BookiesSeen(look, None))
            case ReadLedgers(job, after):
                part = [one for one in LEDGERS if one.ledger_id > after][:PIECE]
                last_id = part[-1].ledger_id if part else after
                read = LedgersRead(tuple(part), last_id, is_last=len(part) < PIECE)
                self.say(JobAnswered(job, read))
            case CheckLedgers(job, _, after):
                checked = LedgersChecked(
                    reports=(),
                    last_ledger_id=after + PIECE,
                    is_last=after >= PIECE,
                    ledger_count=PIECE,
                )
                self.say(JobAnswered(job, checked))
            case Publish(job, term, reports):
                if term != self.term:
                    self.say(JobAnswered(job, MetadataConflictError("the term", "it is over")))
                    return
                for report in reports:
                    self.published |= {(report.ledger_id, one) for one in report.bookie_ids}
                self.say(JobAnswered(job, None))

    # ------------------------------------------------------------------ rules

    @rule(bookie_id=bookies, is_told=st.booleans())
    def vanish(self, bookie_id: str, is_told: bool) -> None:
        if bookie_id not in self.gone_ms:
            self.gone_ms[bookie_id] = self.now_ms
            self.vanished_count += 1
            self.vanished_ms = self.now_ms
            self.published = {one for one in self.published if one[1] != bookie_id}
        if is_told:
            self.say(self.picture())

    @rule(bookie_id=bookies, is_told=st.booleans())
    def come_back(self, bookie_id: str, is_told: bool) -> None:
        self.gone_ms.pop(bookie_id, None)
        if is_told:
            self.say(self.picture())

    @rule(ms=st.sampled_from([1, 900, 4_100, 10_000, 150_000]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.say(TimePassed())

    @initialize(is_settled=st.booleans())
    def begin(self, is_settled: bool) -> None:
        """Mostly there is a leader whose first hold is over: that is where things happen."""
        if not is_settled:
            return
        self.be_elected()
        self.now_ms += HOLD_MS
        self.say(TimePassed())
        self.answer(self.questions.pop())

    @precondition(lambda self: self.term is None)
    @rule()
    def be_elected_at_last(self) -> None:
        self.be_elected()

    @rule(dice=st.integers(0, 4))
    def change_terms(self, dice: int) -> None:
        if dice == 0:
            self.be_elected()
        elif dice == 1:
            self.term = None
            self.say(TermEnded())

    def be_elected(self) -> None:
        self.term_count += 1
        self.term, self.term_begun_ms = self.term_count, self.now_ms
        self.published.clear()
        self.say(TermBegun(self.term))

    @rule(is_enabled=st.sampled_from([True, True, False]))
    def switch(self, is_enabled: bool) -> None:
        self.is_enabled = is_enabled
        self.say(Switched(is_enabled))

    @rule()
    def trigger(self) -> None:
        self.was_triggered = True
        self.say(Triggered())

    @precondition(lambda self: self.questions)
    @rule(data=st.data())
    def get_an_answer(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.questions) - 1))
        self.answer(self.questions.pop(index))

    @precondition(lambda self: self.questions)
    @rule()
    def get_the_oldest_answer(self) -> None:
        self.answer(self.questions.pop(0))

    @precondition(lambda self: self.questions)
    @rule()
    def get_the_newest_answer(self) -> None:
        self.answer(self.questions.pop())

    @precondition(lambda self: self.questions)
    @rule()
    def get_none(self) -> None:
        question = self.questions.pop(0)
        match question:
            case LookAtBookies(look):
                self.say(BookiesSeen(look, None))
            case ReadLedgers(job) | CheckLedgers(job) | Publish(job):
                self.say(JobAnswered(job, MetadataUnavailableError("store", "timed out")))

    # ------------------------------------------------------------------ what is always so

    @invariant()
    def nothing_is_asked_for_ever(self) -> None:
        assert len(self.questions) <= 3 * (self.term_count + 1) + 20

    def teardown(self) -> None:
        """Mend all but the bookies: every ledger of each lost one is published."""
        self.switch(is_enabled=True)
        if self.term is None:
            self.be_elected()
        self.say(self.picture())
        for _ in range(SETTLE_STEP_COUNT_MAX):
            if self.questions:
                self.answer(self.questions.pop(0))
            elif self.wake_ms is not None and self.wake_ms > self.now_ms:
                self.now_ms = self.wake_ms
                self.say(TimePassed())
                if not self.questions and self.is_whole():
                    break
        assert self.is_whole(), "every lost bookie is published in the end"

    def is_whole(self) -> bool:
        wanted = {
            (one.ledger_id, bookie_id)
            for one in LEDGERS
            for bookie_id in one.fragments[0].bookies
            if bookie_id in self.gone_ms
        }
        return wanted <= self.published


AuditMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)


def test_a_bookie_that_came_back_unseen_may_be_published_after_its_delay() -> None:
    """The world knows more than the auditor was told."""
    machine = AuditMachine()
    machine.be_elected()
    machine.vanish("b0", is_told=True)
    machine.wait(HOLD_MS)
    machine.get_the_newest_answer()
    machine.come_back("b0", is_told=False)

    machine.get_the_newest_answer()

    (publish,) = machine.questions
    assert isinstance(publish, Publish)
    machine.teardown()


TestAuditMachine = AuditMachine.TestCase
