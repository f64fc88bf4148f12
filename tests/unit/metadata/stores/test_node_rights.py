"""Who may do what with which node."""

import re

import msgspec
import pytest

from zbk.errors import CorruptRecordError, InvalidOptionError
from zbk.metadata import paths
from zbk.metadata.paths import (
    AUDIT_TRIGGER,
    AUDITOR_LEADER,
    LOST_BOOKIE_DELAY,
    TASK_COUNTER,
    UNDERREPLICATED_LEDGERS,
    UNREPAIRABLE_LEDGERS,
    ledger_path,
    task_lock_path,
    task_path,
)
from zbk.metadata.records.namespace_usage import usage_path
from zbk.metadata.stores.arguments import parent_of
from zbk.metadata.stores.node_rights import (
    ACCESS,
    ALL,
    KINDS,
    OPEN,
    OTHER,
    Grant,
    Members,
    check_members,
    decode_members,
    encode_members,
    is_open,
    kind_of,
    rights_on,
)
from zbk.metadata.values import LedgerLayout

MEMBERS = Members(
    operators=("sasl:o",), bookies=("sasl:b",), clients=("sasl:c",), auditors=("sasl:a",)
)


def rights(path: str) -> dict[str, str]:
    return {one.identity.removeprefix("sasl:"): one.rights for one in rights_on(path, MEMBERS)}


def test_a_record_without_writers_is_what_an_older_zbk_knows() -> None:
    fields = msgspec.json.decode(encode_members(MEMBERS))

    assert fields.keys() == {"operators", "bookies", "clients", "auditors", "format_version"}
    with_writers = msgspec.structs.replace(MEMBERS, writers=("sasl:w",))
    assert decode_members(encode_members(with_writers)) == with_writers


def test_every_path_of_a_record_has_a_kind() -> None:
    every = [value for value in vars(paths).values() if isinstance(value, str)]
    fixed = [value for value in every if re.fullmatch("/[A-Za-z/]+", value)]

    assert len(fixed) > 20
    assert [path for path in fixed if kind_of(path) is OTHER] == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "root"),
        (ACCESS, "members"),
        ("/cookies/b1", "cookie"),
        ("/available/b1", "registration"),
        ("/available/readonly", "registrations"),
        ("/available/readonly/b1", "registration"),
        (ledger_path(7, LedgerLayout.HIERARCHICAL), "ledgers"),
        (ledger_path(7, LedgerLayout.FLAT), "ledgers"),
        ("/logs/name/id", "logs"),
        ("/datasets/name/id/load", "data sets"),
        (task_path("/underreplication/ledgers", 7), "repair tasks"),
        (task_path("/underreplication/unrepairable", 7), "unrepairable ledgers"),
        ("/underreplication/news", "news of repair tasks"),
        (task_lock_path(7, "abc"), "repair"),
        ("/principals", "principals"),
        ("/principals/more", "other"),
        ("/namespaces", "namespaces"),
        ("/namespaces/orders:eu", "usage of namespaces"),
        ("/grants", "changes of grants"),
        ("/new", "other"),
        ("/ledgersX", "other"),
    ],
)
def test_the_kinds(path: str, kind: str) -> None:
    assert kind_of(path).name == kind


def test_the_patterns_are_apart() -> None:
    samples = ["/", ACCESS, "/idgen", "/cookies", "/cookies/b", "/available", "/available/readonly"]
    for path in [*samples, "/available/b", "/ledgers/00", "/logs", "/datasets/x", "/principals"]:
        found = [one.name for one in KINDS if re.fullmatch(one.pattern, path)]
        # the folder of read-only bookies also has the form of a bookie below ``/available``
        assert found[0] == kind_of(path).name
        assert len(found) == (2 if path == "/available/readonly" else 1)


def test_operators_do_everything_and_auditors_read() -> None:
    for path in ("/", "/ledgers/00/0000/L0001", "/principals", "/unknown"):
        assert rights(path)["o"] == ALL
        assert rights(path)["a"] == "r"
        assert not is_open(rights_on(path, MEMBERS))


def test_only_operators_change_principals_members_and_the_root() -> None:
    for path in ("/", ACCESS, "/principals", "/namespaces", "/unknown"):
        for role in "bca":
            assert set(rights(path).get(role, "")) <= {"r"}


def test_clients_report_what_ledgers_lack_and_end_no_task() -> None:
    task, shelf = (task_path(one, 7) for one in (UNDERREPLICATED_LEDGERS, UNREPAIRABLE_LEDGERS))
    for path in (task, parent_of(task), UNDERREPLICATED_LEDGERS):
        assert rights(path)["c"] == "rwc"
    for path in (shelf, parent_of(shelf)):  # a new report takes a task from there
        assert rights(path)["c"] == "rwcd"
    assert rights(TASK_COUNTER)["c"] == "rw"
    for path in (AUDIT_TRIGGER, LOST_BOOKIE_DELAY, AUDITOR_LEADER, task_lock_path(7)):
        assert rights(path)["c"] == "r"


def test_bookies_count_what_they_close_in_a_namespace_with_limits() -> None:
    """Autorecovery closes the ledgers of writers that are gone."""
    assert rights(usage_path("orders/eu"))["b"] == "rw"


def test_an_identity_with_two_roles_has_the_rights_of_both() -> None:
    both = Members(operators=("sasl:o",), bookies=("sasl:x",), clients=("sasl:x",))

    assert rights_on("/idgen", both) == (Grant("sasl:o", ALL), Grant("sasl:x", "rw"))


def test_what_everyone_may_do_is_open() -> None:
    assert is_open(OPEN)
    assert is_open((Grant("ip:10.0.0.0/8", "r"),))
    assert not is_open((Grant("world:anyone", ""), Grant("sasl:b", "r")))


@pytest.mark.parametrize(
    "bad",
    [
        Members(operators=()),
        Members(operators=("ann",)),
        Members(operators=("digest:ann:short",)),
        Members(operators=("world:anyone",)),
        Members(operators=("sasl:o",), clients=("sasl:a b",)),
        Members(operators=tuple(f"sasl:{n}" for n in range(65))),
    ],
)
def test_malformed_members_are_refused(bad: Members) -> None:
    with pytest.raises(InvalidOptionError):
        check_members(bad)


def test_the_record_is_read_as_it_was_written() -> None:
    assert decode_members(encode_members(MEMBERS)) == MEMBERS
    later = msgspec.structs.replace(MEMBERS, format_version=2)
    for damaged in (b"", b"{}", b"[1]", b"\xff", encode_members(later)):
        with pytest.raises(CorruptRecordError):
            decode_members(damaged)
