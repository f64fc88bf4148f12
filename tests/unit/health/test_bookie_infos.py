"""Requests for the info of many bookies: a window, and one time limit for all."""

from collections.abc import Sequence

import msgspec

from tests.support.health import bookie_info
from tests.support.scripted_bookie import ScriptedBookie, greeted
from tests.support.wire_peers import BOOKIE_ID, INSTANCE_ID
from zbk.errors import RequestTimeoutError, ZbkError
from zbk.health.bookie_infos import ask_bookies
from zbk.system.clock import monotonic_s
from zbk.wire.messages import VERSION_MAX, Answer, BookieInfo, Hello, Message


def willing(message: Message) -> Sequence[Answer]:
    if isinstance(message, Hello):
        return [greeted(message)]
    return [msgspec.structs.replace(bookie_info(), request_id=message.request_id, incarnation=1)]


def silent(message: Message) -> Sequence[Answer]:
    return [greeted(message)] if isinstance(message, Hello) else []


def test_a_bookie_gives_its_info() -> None:
    with ScriptedBookie(willing) as bookie:
        found = ask_bookies({BOOKIE_ID: bookie.endpoint}, INSTANCE_ID, 10.0)

    assert isinstance(found[BOOKIE_ID].outcome, BookieInfo)
    assert found[BOOKIE_ID].wire_version == VERSION_MAX


def test_a_silent_bookie_is_an_error_when_the_time_is_over() -> None:
    started_s = monotonic_s()
    with ScriptedBookie(silent) as bookie:
        found = ask_bookies({BOOKIE_ID: bookie.endpoint}, INSTANCE_ID, 0.3)

    assert isinstance(found[BOOKIE_ID].outcome, RequestTimeoutError)
    assert found[BOOKIE_ID].wire_version == VERSION_MAX
    assert monotonic_s() - started_s < 5


def test_a_bookie_outside_of_the_window_is_not_asked() -> None:
    with ScriptedBookie(silent) as bookie:
        addresses = {BOOKIE_ID: bookie.endpoint, "b-2": bookie.endpoint}
        found = ask_bookies(addresses, INSTANCE_ID, 0.3, window_count=1)

    assert isinstance(found[BOOKIE_ID].outcome, ZbkError)
    assert len(found) <= 2


def test_no_bookies_cost_nothing() -> None:
    assert ask_bookies({}, INSTANCE_ID, 10.0) == {}
