"""Requests for the info of many bookies: a window, and one time limit for all."""

import threading
from collections.abc import Sequence
from typing import Self

import msgspec
import pytest
import zmq

from tests.support.health import bookie_info
from tests.support.scripted_bookie import ScriptedBookie, greeted
from tests.support.wire_peers import BOOKIE_ID, INSTANCE_ID
from zbk.errors import RequestTimeoutError, ZbkError
from zbk.health.bookie_infos import BookieAsker, ask_bookies
from zbk.security.credentials import BookieDoors
from zbk.system import machine
from zbk.system.clock import monotonic_s
from zbk.wire import codec
from zbk.wire.messages import VERSION_MAX, Answer, BookieInfo, Hello, Message


def willing(message: Message) -> Sequence[Answer]:
    if isinstance(message, Hello):
        return [greeted(message)]
    return [msgspec.structs.replace(bookie_info(), request_id=message.request_id, incarnation=1)]


def silent(message: Message) -> Sequence[Answer]:
    return [greeted(message)] if isinstance(message, Hello) else []


DESCRIPTOR_COUNT = 16_384


class ManyBookies:
    """One socket that answers as any bookie that it is taken for."""

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.BACKLOG, 4_096)
        self._socket.bind("tcp://127.0.0.1:*")
        self.endpoint = str(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self._is_stopping.set()
        self._thread.join(10)
        self._context.destroy(linger=0)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            if not self._socket.poll(50):
                continue
            name, header, *_frames = self._socket.recv_multipart()
            message = codec.decode_request(header)
            for answer in willing(message):
                own = {"bookie_id": message.bookie_id} if isinstance(message, Hello) else {}
                reply = msgspec.structs.replace(answer, **own)
                self._socket.send_multipart([name, codec.encode(reply)])


def test_a_bookie_gives_its_info() -> None:
    with ScriptedBookie(willing) as bookie:
        found = ask_bookies({BOOKIE_ID: BookieDoors(bookie.endpoint)}, INSTANCE_ID, 10.0)

    assert isinstance(found[BOOKIE_ID].outcome, BookieInfo)
    assert found[BOOKIE_ID].wire_version == VERSION_MAX


def test_a_silent_bookie_is_an_error_when_the_time_is_over() -> None:
    started_s = monotonic_s()
    with ScriptedBookie(silent) as bookie:
        found = ask_bookies({BOOKIE_ID: BookieDoors(bookie.endpoint)}, INSTANCE_ID, 0.3)

    assert isinstance(found[BOOKIE_ID].outcome, RequestTimeoutError)
    assert found[BOOKIE_ID].wire_version == VERSION_MAX
    assert monotonic_s() - started_s < 5


def test_a_bookie_for_which_no_time_is_left_is_not_asked() -> None:
    with ScriptedBookie(silent) as bookie:
        addresses = {BOOKIE_ID: BookieDoors(bookie.endpoint), "b-2": BookieDoors(bookie.endpoint)}
        found = ask_bookies(addresses, INSTANCE_ID, 0.3, group_count_max=1, group_size_max=1)

    assert found.keys() == {BOOKIE_ID}
    assert isinstance(found[BOOKIE_ID].outcome, ZbkError)


@pytest.mark.skipif(
    (machine.descriptor_limits()[1] or DESCRIPTOR_COUNT) < DESCRIPTOR_COUNT,
    reason=f"needs {DESCRIPTOR_COUNT:,} descriptors for both ends",
)
def test_2000_bookies_are_asked_at_once() -> None:
    with ManyBookies() as bookies:
        addresses = {f"b-{number}": BookieDoors(bookies.endpoint) for number in range(2_000)}
        found = ask_bookies(addresses, INSTANCE_ID, 60.0)

    assert found.keys() == addresses.keys()
    errors = [one.outcome for one in found.values() if not isinstance(one.outcome, BookieInfo)]
    assert errors == []


def test_an_asker_keeps_its_connections() -> None:
    with ScriptedBookie(willing) as bookie:
        asker = BookieAsker(INSTANCE_ID, 10.0)
        for _ in range(3):
            assert isinstance(
                asker.ask({BOOKIE_ID: BookieDoors(bookie.endpoint)})[BOOKIE_ID].outcome, BookieInfo
            )
        asker.close()

    assert sum(isinstance(message, Hello) for message in bookie.seen) == 1


def test_no_bookies_cost_nothing() -> None:
    assert ask_bookies({}, INSTANCE_ID, 10.0) == {}
