"""What is wrong with the arguments of a public call is found before anything is sent or made.

The calls are found by looking at what ``zbk`` exports, so a new method, or a new parameter, without
an entry in ``BAD`` fails here; so does one that accepts what is in the table, or sends anything
before it refuses. The client, its sockets and the metadata are real; the bookie only counts.
"""

import inspect
import itertools
import math
import typing
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import FunctionType
from typing import Any

import msgspec
import pytest

import zbk
from tests.support.memory_store import named_tree
from tests.support.wire_peers import BOOKIE_ID, Echo, front
from zbk.client.write.ledger_creation import LedgerOptions
from zbk.config import ClientConfig
from zbk.errors import (
    BookieUnavailableError,
    EntryTooLargeError,
    InvalidOptionError,
    InvalidQuorumError,
)
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.ledgers import initialise
from zbk.metadata.values import BookieRegistration
from zbk.protocol.dataset.dataset import LoadKind, new_load_id
from zbk.protocol.dataset.manifest import DataLedger
from zbk.protocol.log.position import LogPosition
from zbk.wire.messages import ScrubStatus

TREES = itertools.count()

REFUSALS = (InvalidOptionError, InvalidQuorumError, EntryTooLargeError)

MADE_BY_CALLS = {"LedgerWriter", "LedgerReader", "LedgerTail", "TailGroup", "Log", "LogTail"}
"""Classes whose constructors an application does not call."""

FOR_TAILS = {"LedgerReader.learn", "LedgerReader.read_ahead", "LedgerReader.begin_tail"}
"""Methods that a tail calls of its reader; no part of the API."""

TICKET = zbk.LoadTicket(
    name="events", data_set_id="0" * 32, load_id=new_load_id(10**12, "0" * 32),
    kind=LoadKind.APPEND, base_version=0,
)  # fmt: skip
DATA_LEDGER = DataLedger(
    ledger_id=0, entry_count=1, row_count=1, size=1, load_id="1", partition=0, attempt=0
)


class Wrong(msgspec.Struct, frozen=True):
    """A value that no such parameter has; ``is_type``: it is its type that is wrong."""

    value: object
    is_type: bool = False


YES = True
"""A truth value where an integer is expected."""


def types(*values: object) -> list[Wrong]:
    return [Wrong(value, is_type=True) for value in values]


def values(*values: object) -> list[Wrong]:
    return [Wrong(value) for value in values]


class NotText:
    """Says it is a text, and is none."""

    def __str__(self) -> str:
        return "7"


ID = [*types("0", b"0", 0.0, 1.5, None, YES, NotText(), Decimal(1)), *values(-1, 2**63)]
TIMEOUT = [
    *types("5", b"5", YES, [5], timedelta(seconds=5), 5j, Decimal(5)),
    *values(-1, -0.5, math.nan, -math.inf, 1e308, 10**400),
]
PASSWORD = [*types("secret", None, 7, ["s"], bytearray), *values(b"x" * 100_000)]
NAME = [*types(None, 7, b"orders", ["o"], NotText()), *values("", "a/b", "x" * 1_000, "\udcff")]
FLAG = types(0, 1, "yes", None, [])
POSITION = [
    *types("7:9", (7, 9), 7, b"7:9", LogPosition("7", 9), LogPosition(7, None)),  # type: ignore[arg-type]  # on purpose
    *values(LogPosition(-1, 0), LogPosition(0, 2**63)),
]
SIZE = [*types("3", 3.0, None, YES), *values(0, -1, 65, 2**70)]
TEXT = [*types(None, 7, b"me", ["me"]), *values("x" * 10_000, "\udcff")]
KINDS = [*types(None, 7, [None], b"minor"), *values("minor", ["all"], [""])]
TICKETS = [
    *types(None, "events", {"name": "events"}, DATA_LEDGER),
    *types(msgspec.structs.replace(TICKET, name=7)),
    *types(msgspec.structs.replace(TICKET, base_version="0")),
]

BAD: dict[str, list[Wrong]] = {
    "ack_quorum_size": SIZE,
    "attempt": ID,
    "batch_id": [*types("1", 1.0, None, YES), *values(-2, 2**63)],
    "begun": types(None, 7, {"begun_pass": 1}),
    "bookie_id": [*types(7, b"b-1", ["b-1"]), *values("", "a/b", "x" * 1_000)],
    "client": types(7, "zk://host", object()),
    "compaction": [*types(None, 7, YES), *values("MINOR", "all")],
    "config": types(None, {}, 7),
    "count": [*types("3", 3.0, None, YES), *values(0, -1, 100_001, 2**70)],
    "create": FLAG,
    "custom_metadata": [
        *types("a", [("a", b"b")], {"a": "b"}, {b"a": b"b"}, {"a": 7}, {7: b"b"}),
        *values({"a": b"x" * 2_000_000}, {"\udcff": b""}, {str(n): b"" for n in range(10_000)}),
    ],
    "digest_type": [*types(7, None, b"XXH3"), *values("CRC", "")],
    "end_id": ID,
    "ensemble_size": SIZE,
    "first": ID,
    "first_id": ID,
    "grants": [
        *types("a", 7, ["bob"], {"bob": "read"}, {7: ["read"]}, {"bob": b"read"}),
        *values({"bob": ["write"]}, {"bob": []}, {"b b": ["read"]}),
        *values({f"p{n}": ["read"] for n in range(65)}),
    ],
    "is_dry_run": FLAG,
    "accept_loss": FLAG,
    "durable": FLAG,
    "entry_id": ID,
    "partial": FLAG,
    "is_pass_wanted": FLAG,
    "kind": [*types(None, 7, b"append"), *values("replace", "")],
    "last": [*types("0", 0.5, None, YES), *values(2**63)],
    "ledger_id": ID,
    "ledger_type": [*types(7, None, b"PD_JOURNAL", ["PD_JOURNAL"]), *values("FAST", "pd", "")],
    "ledgers": types(None, 7, DATA_LEDGER, [None], ["1"], [{"ledger_id": 1}], [TICKET]),
    "load_id": [*types(None, 7, b"1"), *values("x", "g" * 32, "1" * 31, "-" + "1" * 31)],
    "metrics": types(7, "registry", object()),
    "tracing": types(7, None, "on", object()),
    "name": NAME,
    "now_ms": types(7, None, "now"),
    "partition": ID,
    "namespace": [*types(7, b"orders", None), *values("/a", "a//b", "a b", "x" * 129)],
    "password": PASSWORD,
    "payload": [*types("text", None, 7, [b"a"], [1, 2]), *values(b"x" * (2 << 20))],
    "payloads": [
        *types(None, 7, "text", b"bytes", bytearray(b"bytes"), memoryview(b"bytes")),
        *types([b"a", "b"], [7], [None], [[b"a"]], {"a": b"b"}),
        *values([b"a", b"x" * (2 << 20)]),
    ],
    "position": POSITION,
    "principal": [*types(7, None, b"bob"), *values("", "b b", "x" * 65, "**")],
    "rights": [*types("read", 7, None, {"read": 1}, [7]), *values([], ["write"], ["READ"])],
    "sync_every": [
        *types(1.5, b"1s", [1], YES),
        *values(0, -1, 2**70, "", "7", "0s", "fast", "8 miles", "-1s"),
    ],
    "resume": KINDS,
    "roll_ms": [*types("5", 1.5, None, YES), *values(-1, 2**70)],
    "roll_size": [*types("5 MiB", 1.5, None, YES), *values(0, -1, 2**70)],
    "schema": types("schema", None, 7, {}),
    "start": POSITION,
    "stream": TEXT,
    "suspend": KINDS,
    "tell": types(7, None, "print"),
    "ticket": TICKETS,
    "timeout": TIMEOUT,
    "ttl_ms": [*types("1d", 1.5, None, YES), *values(0, -1, 2**60)],
    "uri": [*types(1, b"memory://x", ["memory://x"]), *values("x", "\0")],
    "version": [*types("1", 1.5, YES), *values(0, -1, 2**63)],
    "who": TEXT,
    "write_quorum_size": SIZE,
    "reader": types(None, 7, "reader", DATA_LEDGER),
    "writers": types(None, 7, "writers", [None], [DATA_LEDGER]),
}
"""By the name of a parameter: what must be refused wherever there is one of this name."""

GOOD: dict[str, object] = {
    "load_id": "018bcfe568000123456789abcdef0123",
    "attempt": 0,
    "begun": ScrubStatus(request_id=1, incarnation=1, awaited_pass=1, begun_pass=1, ended_pass=1),
    "bookie_id": BOOKIE_ID,
    "config": ClientConfig(),
    "count": 1,
    "first": 0,
    "last": -1,
    "ledger_id": 0,
    "ledgers": [DATA_LEDGER],
    "name": "orders",
    "partition": 0,
    "payload": b"p",
    "payloads": [b"p"],
    "position": LogPosition(0, 0),
    "principal": "bob",
    "rights": ["read"],
    "schema": b"s",
    "ticket": TICKET,
    "timeout": 1.0,
    "uri": "memory://public-arguments",
    "version": 1,
    "writers": (),
}
"""By the name of a parameter: what stands beside a bad one."""


class World:
    """A cluster of one bookie that counts, a client, and one of each thing that it makes."""

    def __init__(self) -> None:
        name = f"public-arguments-{next(TREES)}"
        self.tree = named_tree(name)
        self.store = self.tree.open_session()
        self.echo = Echo()
        self.front = front(self.echo, instance_id=initialise(self.store))
        registration = BookieRegistration(
            bookie_id=BOOKIE_ID, address=self.front.endpoint, incarnation=1, is_readonly=False,
            started_ms=0, version="1",
        )  # fmt: skip
        self.registration = BookieRegistry(self.store).register(registration)
        self.client = zbk.connect(f"memory://{name}", explicit_lac_ms=0)
        sizes = LedgerOptions(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
        self.writer = self.client.create_ledger(**sizes)
        self.reader = self.client.open_ledger(self.writer.ledger_id)
        self.log = self.client.open_log("orders", **sizes)
        self.data_sets = zbk.DataSets(self.client)
        self.objects: dict[str, object] = {
            "Client": self.client,
            "LedgerWriter": self.writer,
            "LedgerReader": self.reader,
            "LedgerTail": self.reader.tail(),
            "Log": self.log,
            "LogTail": self.log.tail(),
            "TailGroup": self.client.tail_group(),
            "DataSets": self.data_sets,
        }

    def close(self) -> None:
        self.client.close()
        self.registration.close()
        self.front.stop()
        self.store.close()

    def seen(self) -> tuple[object, ...]:
        """Return everything that a call could have changed. What it sent is on its way no more."""
        with pytest.raises(BookieUnavailableError, match="another kind"):
            self.client.bookie_info(BOOKIE_ID)
        with self.tree.lock:
            nodes = dict(self.tree._nodes)
        return (
            nodes,
            self.writer._mailbox.pending_size,
            self.writer.last_add_pushed,
            self.log._gate.entry_count,
            self.writer._close_future,
            len(self.client._pool._connections),
        )


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def public_calls() -> dict[str, Callable[..., Any]]:
    """Return every function and method that an application may call, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for name in zbk.__all__:
        exported = getattr(zbk, name)
        if isinstance(exported, FunctionType):
            found[name] = exported
        elif inspect.isclass(exported) and not issubclass(
            exported, msgspec.Struct | Enum | Exception
        ):
            for method, function in inspect.getmembers(exported, inspect.isfunction):
                full = f"{name}.{method}"
                is_made = method == "__init__" and name not in MADE_BY_CALLS
                if is_made or not (method.startswith("_") or full in FOR_TAILS):
                    found[full] = function
    return found


VALUES = {"LogRange", "ReadBatch"}
"""Classes that hold what was read or added; nothing is sent with them."""

CALLS = {n: f for n, f in public_calls().items() if n.partition(".")[0] not in VALUES}


def parameters_of(call: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return what may be given by name, the keywords of ``**options`` too."""
    found = {}
    for name, parameter in inspect.signature(call).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            options = typing.get_args(parameter.annotation)
            if options[0] is not zbk.ClientOptions:  # a configuration, which has tests of its own
                for option in options[0].__annotations__:
                    found[option] = parameter.replace(
                        name=option, kind=inspect.Parameter.KEYWORD_ONLY, default=None
                    )
        elif name != "self":
            found[name] = parameter
    return found


CASES = [(name, parameter) for name, call in CALLS.items() for parameter in parameters_of(call)]


def test_the_api_is_found() -> None:
    assert {name.partition(".")[0] for name in CALLS} == {
        "Client", "DataSets", "LedgerReader", "LedgerTail", "LedgerWriter", "Log", "LogTail",
        "TailGroup", "connect",
    }  # fmt: skip
    assert len(CASES) > 100


def test_every_parameter_of_the_api_is_in_the_table() -> None:
    missing = {f"{name}({parameter})" for name, parameter in CASES if parameter not in BAD}

    assert not missing, "say in BAD what these must refuse"


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_a_bad_argument_is_refused_and_nothing_is_sent(world: World, name: str) -> None:
    call = CALLS[name]
    target = () if "." not in name else (target_of(world, name),)
    before = world.seen()
    message_count = world.front.counts.message_count
    for parameter, one in parameters_of(call).items():
        others = others_of(world, call, parameter)
        refused_count = 0
        for wrong in BAD[parameter]:
            if is_default(wrong.value, one.default):
                continue
            with pytest.raises(REFUSALS) as caught:
                call(*target, **others, **{parameter: wrong.value})
            assert not wrong.is_type or isinstance(caught.value, TypeError), (wrong, caught.value)
            assert "secret" not in str(caught.value)
            refused_count += 1
        assert refused_count

    assert world.seen() == before
    assert world.front.counts.message_count == message_count + 1, "the one of seen()"


def others_of(world: World, call: Callable[..., Any], parameter: str) -> dict[str, object]:
    """Return what has to be given beside a parameter."""
    made = {"client": world.client, "reader": world.reader}
    return {
        name: made[name] if name in made else GOOD[name]
        for name, one in parameters_of(call).items()
        if one.default is inspect.Parameter.empty and name != parameter
    }


def is_default(value: object, default: object) -> bool:
    """Return whether a value means that nothing was given."""
    return type(value) is type(default) and value == default


def target_of(world: World, name: str) -> object:
    owner, _, method = name.partition(".")
    return object.__new__(getattr(zbk, owner)) if method == "__init__" else world.objects[owner]


@pytest.mark.parametrize("timeout", [0.5, 3, math.inf, Fraction(10, 3)])
def test_a_good_timeout_goes_all_the_way(world: World, timeout: float) -> None:
    assert world.reader.read_last_add_confirmed(timeout=timeout) == 7


def test_the_texts_of_types_are_accepted(world: World) -> None:
    world.data_sets.check_options(ledger_type="VD_JOURNAL", digest_type="NONE")
