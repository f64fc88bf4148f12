"""What the checks of public calls return, and what the client can do with it."""

import math
import queue
import threading
from array import array
from fractions import Fraction

import pytest

from zbk.client import arguments
from zbk.errors import ArgumentTypeError, ArgumentValueError, EntryTooLargeError
from zbk.protocol.dataset.dataset import LoadKind


class Index:
    """An integer as numpy has them."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0, 0.0),
        (2, 2.0),
        (0.5, 0.5),
        (Fraction(1, 2), 0.5),
        (1e9, 1e9),
        (math.inf, arguments.TIMEOUT_S_MAX),
    ],
)
def test_seconds(given: object, expected: float) -> None:
    found = arguments.seconds(given)

    assert (found, type(found)) == (expected, float)


def test_the_longest_timeout_is_one_that_locks_and_queues_take() -> None:
    lock, box = threading.Lock(), queue.SimpleQueue[int]()
    box.put(7)

    assert lock.acquire(timeout=arguments.TIMEOUT_S_MAX)
    assert box.get(timeout=arguments.TIMEOUT_S_MAX) == 7


def test_integers_are_what_has_an_index() -> None:
    assert arguments.ledger_id(Index()) == 7
    assert type(arguments.ledger_id(Index())) is int


@pytest.mark.parametrize(
    "given",
    [b"ab", bytearray(b"ab"), memoryview(b"ab"), memoryview(b"axbx")[::2], array("b", b"ab")],
)
def test_bytes_are_what_has_a_buffer(given: object) -> None:
    assert arguments.payload(given) == b"ab"
    assert arguments.password(given) == b"ab"
    assert arguments.payloads([given, b"c"], 2) == ([b"ab", b"c"], 3)


def test_a_buffer_that_was_given_back_is_refused() -> None:
    released = memoryview(b"ab")
    released.release()

    with pytest.raises(ArgumentValueError, match="released"):
        arguments.payload(released)


def test_payloads_may_come_from_a_generator_whose_own_failure_is_passed_on() -> None:
    assert arguments.payloads((one for one in [b"a", b"b"]), 1) == ([b"a", b"b"], 2)
    with pytest.raises(ZeroDivisionError):
        arguments.payloads((b"%d" % (1 // n) for n in [1, 0]), 1)
    with pytest.raises(EntryTooLargeError):
        arguments.payloads([b"a", b"bcd"], 2)


def test_members_may_be_given_by_name() -> None:
    assert arguments.member(LoadKind, "kind", "append") is LoadKind.APPEND
    with pytest.raises(ArgumentValueError, match="'replace': is none of append, overwrite"):
        arguments.member(LoadKind, "kind", "replace")


def test_an_error_says_what_was_given_and_what_is_expected() -> None:
    with pytest.raises(TypeError, match=r"timeout='5 \(str\)': give seconds, such as 5 or 0\.5"):
        arguments.seconds("5")
    with pytest.raises(ValueError, match="ledger_id='-1': must be between 0 and"):
        arguments.ledger_id(-1)


def test_an_error_does_not_repeat_a_password() -> None:
    with pytest.raises(
        ArgumentTypeError, match=r"password='str': .*: encode the text first"
    ) as one:
        arguments.password("secret")

    assert "secret" not in str(one.value)


def test_a_value_that_cannot_be_shown_is_refused_all_the_same() -> None:
    with pytest.raises(ArgumentValueError, match="ledger_id='int': must be between"):
        arguments.ledger_id(10**5_000)
