"""SlotRetries: rest after a failure, and no more after many."""

from zbk.errors import BookieUnavailableError, UnsupportedLedgerError
from zbk.protocol.recovery.events import RecoveryLimits
from zbk.protocol.recovery.retries import SlotRetries

LIMITS = RecoveryLimits(attempt_count_max=4, retry_delay_ms=100, retry_delay_ms_max=250)
GONE = BookieUnavailableError("b", "not there")


def test_a_rest_grows_with_each_failure_in_a_row() -> None:
    retries = SlotRetries(2, LIMITS)
    now_ms = 1_000
    for rest_ms in (100, 200, 250):
        retries.failed(0, GONE, now_ms)
        assert not retries.is_ready(0, now_ms + rest_ms - 1)
        now_ms += rest_ms
        assert retries.is_ready(0, now_ms)
        assert retries.is_ready(1, now_ms), "the others go on"


def test_a_slot_is_given_up_after_many_failures_in_a_row() -> None:
    retries = SlotRetries(2, LIMITS)
    for _ in range(4):
        assert not retries.is_given_up(0)
        retries.failed(0, GONE, 0)

    assert retries.is_given_up(0)
    assert retries.given_up == {0}
    assert not retries.is_ready(0, 1_000_000)


def test_an_answer_ends_the_row() -> None:
    retries = SlotRetries(1, LIMITS)
    for _ in range(10):
        retries.failed(0, GONE, 0)
        retries.heard(0)

    assert not retries.is_given_up(0)


def test_a_request_that_was_wrong_is_not_sent_again() -> None:
    retries = SlotRetries(1, LIMITS)

    retries.failed(0, UnsupportedLedgerError("another type"), 0)

    assert retries.is_given_up(0)


def test_the_text_says_what_is_wrong_with_whom() -> None:
    retries = SlotRetries(3, LIMITS)
    retries.failed(1, GONE, 0)

    assert retries.text([1, 2]) == "slot 1: bookie b: not there; slot 2: no answer yet"
