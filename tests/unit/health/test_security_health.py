"""What is open, from facts."""

from typing import Any

import pytest

from zbk.health.security_health import (
    ACTIONS,
    OPEN_API,
    SILENT,
    TOKENLESS,
    BookieDoor,
    EndpointDoor,
    NodeCount,
    SecurityFacts,
    findings,
)
from zbk.metadata.stores.zookeeper_server import ServerAnswer
from zbk.security.principals import Principal
from zbk.system.exposure import Exposure

KEY, NEXT, OTHER = "a" * 40, "b" * 40, "c" * 40


def bookie(**fields: Any) -> BookieDoor:  # noqa: ANN401 - the struct's
    known: dict[str, Any] = {
        "bookie_id": "b1",
        "address": "tcp://b1:3181",
        "security": "required",
        "is_local": False,
        "public_key": KEY,
    }
    return BookieDoor(**(known | fields))


def endpoint(**fields: Any) -> EndpointDoor:  # noqa: ANN401 - likewise
    known: dict[str, Any] = {"process": "console", "url": "http://c1:8710", "is_local": True}
    return EndpointDoor(**(known | fields))


def facts(**fields: Any) -> SecurityFacts:  # noqa: ANN401 - likewise
    known: dict[str, Any] = {
        "metadata": "zk+tls://zk1/zbk",
        "is_zookeeper": True,
        "is_encrypted": True,
        "has_user": True,
        "nodes": (NodeCount(kind="ledgers", open_count=0, differing_count=0),),
        "bookies": (bookie(),),
        "principals": (Principal(name="b1", keys=(KEY,), roles=("bookie",)),),
    }
    return SecurityFacts(**(known | fields))


def nodes(open_count: int, differing_count: int) -> tuple[NodeCount, ...]:
    return (
        NodeCount(kind="root", open_count=0, differing_count=0),
        NodeCount(kind="ledgers", open_count=open_count, differing_count=differing_count),
    )


@pytest.mark.parametrize(
    "closed",
    [
        facts(),
        facts(is_zookeeper=False, is_encrypted=False, nodes=()),
        facts(bookies=(bookie(http="http://b1:9181"),)),
        facts(bookies=(), principals=()),
        facts(endpoints=(endpoint(), endpoint(process="autorecovery"))),
        facts(has_user=False, nodes=nodes(0, 7)),  # of whose members it knows nothing
    ],
)
def test_nothing_is_found_where_nothing_is_open(closed: SecurityFacts) -> None:
    assert findings(closed) == []


OPEN = [
    ("store-unreachable", facts(store_error="no answer"), "operator"),
    ("zookeeper-open", facts(nodes=nodes(7, 7)), "zbk cluster secure"),
    ("zookeeper-open", facts(nodes=nodes(7, 7), has_user=False), "metadata_user"),
    ("zookeeper-rights", facts(nodes=nodes(0, 2)), "zbk cluster secure"),
    ("zookeeper-plain", facts(is_encrypted=False), "zk+tls://"),
    (
        "zookeeper-outdated",
        facts(servers=(ServerAnswer(address="zk1:2181", version="3.8.0"),)),
        "upgrade ZooKeeper",
    ),
    ("bookie-open", facts(bookies=(bookie(security="insecure", public_key=""),)), "--key"),
    ("bookie-open", facts(bookies=(bookie(security="off", public_key=""),)), "--key"),
    (
        "bookie-local",
        facts(bookies=(bookie(security="off", public_key="", is_local=True),)),
        "--key",
    ),
    ("bookie-allowed", facts(bookies=(bookie(security="allowed"),)), "required"),
    ("bookie-unknown", facts(principals=()), "zbk principal add"),
    ("http-open", facts(bookies=(bookie(http_state=OPEN_API),)), "--http-token-file"),
    ("http-without-token", facts(bookies=(bookie(http_state=TOKENLESS),)), "--http-token-file"),
    ("http-actions", facts(bookies=(bookie(http_state=ACTIONS),)), "--http-token-file"),
    (
        "console-open",
        facts(endpoints=(endpoint(is_local=False, state=TOKENLESS),)),
        "a proxy with authentication",
    ),
    (
        "endpoint-open",
        facts(endpoints=(endpoint(process="autorecovery", is_local=False),)),
        "127.0.0.1",
    ),
    (
        "endpoint-actions",
        facts(endpoints=(endpoint(state=ACTIONS, has_page_actions=True),)),
        "without --allow-actions",
    ),
    (
        "endpoint-actions",
        facts(endpoints=(endpoint(state=ACTIONS),)),
        "--http-token-file",
    ),
    ("endpoint-silent", facts(endpoints=(endpoint(state=SILENT),)), "check-security` again"),
    ("http-silent", facts(bookies=(bookie(http_state=SILENT),)), "check-security` again"),
    (
        "principal-two-keys",
        facts(principals=(Principal(name="b1", keys=(KEY, NEXT)),)),
        "zbk principal rm b1 --key OLD.pub",
    ),
    (
        "file-exposed",
        facts(exposures=(Exposure(path="/d", why="lets everyone", remedy="chmod o-w /d"),)),
        "chmod o-w /d",
    ),
]


@pytest.mark.parametrize(("kind", "opened", "remedy"), OPEN)
def test_what_is_open_is_a_problem_with_its_remedy(
    kind: str, opened: SecurityFacts, remedy: str
) -> None:
    (found,) = findings(opened)

    assert found.is_problem
    assert found.kind == kind
    assert remedy in found.command


def test_the_key_that_no_bookie_uses_is_named() -> None:
    (found,) = findings(facts(principals=(Principal(name="b1", keys=(NEXT, KEY)),)))

    assert f"of which no bookie uses {NEXT}" in found.what


def test_of_a_client_with_two_keys_the_old_one_is_not_known() -> None:
    two = Principal(name="ann", keys=(NEXT, OTHER))
    (found,) = findings(facts(principals=(*facts().principals, two)))

    assert found.what == "principal ann has 2 keys"


def test_the_kinds_of_open_nodes_are_counted() -> None:
    (found,) = findings(facts(nodes=nodes(1_234, 1_234)))

    assert found.what == "1,234 nodes of ZooKeeper open to everyone: ledgers 1,234"
    assert found.subjects == ("ledgers",)


def test_files_are_checked_although_the_store_does_not_answer() -> None:
    exposure = Exposure(path="/d", why="lets everyone", remedy="chmod")
    found = findings(facts(store_error="no answer", exposures=(exposure,), bookies=()))

    assert [one.kind for one in found] == ["store-unreachable", "file-exposed"]


def test_a_console_behind_a_proxy_whose_api_is_open_has_both_findings() -> None:
    found = findings(facts(endpoints=(endpoint(is_local=False, state=OPEN_API),)))

    assert [one.kind for one in found] == ["console-open", "endpoint-api"]
