"""Times at which the pool's thread calls back, asked for in several threads."""

import threading

from tests.support.wire_peers import pool


def test_a_later_time_of_another_thread_replaces_none_that_was_set_meanwhile() -> None:
    """It was compared when it was asked for, and set when the pool's thread came to it."""
    client, may_begin, is_over = pool(), threading.Event(), threading.Event()
    sooner_ms, later_ms = 2**40, 2**41  # neither comes
    found: list[int] = []

    def alarm() -> None:
        raise AssertionError("its time does not come")

    def turn() -> None:
        may_begin.wait()
        client.call_at(sooner_ms, alarm)

    def look() -> None:
        found.append(client._alarms[alarm])
        is_over.set()

    client.call_soon(turn)
    client.call_at(later_ms, alarm)
    may_begin.set()
    client.call_soon(look)
    is_over.wait()
    client.close()

    assert found == [sooner_ms]
