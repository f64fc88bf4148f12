"""SessionNumber: the same as long as nothing happened to the session."""

from tests.support.memory_store import MemoryTree
from zbk.metadata.stores.session_number import SessionNumber


def test_the_number_stays_until_there_is_news_of_the_session() -> None:
    store = MemoryTree("test").open_session()
    session = SessionNumber(store)
    first = session.now()
    assert first is not None
    assert session.since(first) == first

    store.suspend()
    assert session.now() is None
    assert session.since(first) is None
    store.resume()
    store.settle()

    assert session.now() is not None
    assert session.since(first) is None
    second = session.now()
    store.expire_session()
    store.settle()
    assert session.since(second) is None
    assert session.since(None) is None
    session.close()
    store.close()
    assert session.now() is None
