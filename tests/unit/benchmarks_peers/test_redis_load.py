"""Batches over several connections to Redis."""

from benchmarks.peers.load import Api, PeerLoad
from benchmarks.peers.redis_load import write


class FakeLine:
    """Notes what is asked of it, in a list that all lines share."""

    def __init__(self, name: str, story: list[str]) -> None:
        self._name = name
        self._story = story

    def send(self, payload: bytes, count: int) -> None:
        self._story.append(f"send {count} x {len(payload)} B on {self._name}")

    def send_singly(self, payload: bytes, count: int) -> None:
        self._story.append(f"send singly {count} x {len(payload)} B on {self._name}")

    def confirm(self) -> list[float]:
        self._story.append(f"confirm {self._name}")
        return [0.5]


def told(entry_count: int, api: Api = "many") -> tuple[list[str], list[float]]:
    story: list[str] = []
    load = PeerLoad(entry_size=9, entry_count=entry_count, api=api, batch_count=4, window=2)
    return story, write([FakeLine("a", story), FakeLine("b", story)], load)


def test_batches_wait_for_a_connection_and_the_oldest_is_confirmed_first() -> None:
    story, latencies_s = told(14)

    assert story == [
        "send 4 x 9 B on a",
        "send 4 x 9 B on b",
        "confirm a",
        "send 4 x 9 B on a",
        "confirm b",
        "send 2 x 9 B on b",
        "confirm a",
        "confirm b",
    ]
    assert latencies_s == [0.5] * 4


def test_fewer_batches_than_connections_leave_some_unused() -> None:
    assert told(3)[0] == ["send 3 x 9 B on a", "confirm a"]


def test_async_sends_entries_one_by_one() -> None:
    assert told(4, "async")[0] == ["send singly 4 x 9 B on a", "confirm a"]
