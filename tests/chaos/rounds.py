"""One round: clients work, faults come and go, everything is healed, and the judge looks.

The judgement: every ledger of the round can be closed by recovery and read to its end; the checker
finds no broken promise in what all processes saw; no bookie and no client ended by itself; ledgers
of earlier rounds still hold the same bytes; and where autorecovery runs, no copy is missing in the
end. What the harness itself could not do is a trouble and no violation (``verdict``).
"""

import random
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from tests.chaos.client import connect
from tests.chaos.client_roles import Reading, recover_one
from tests.chaos.cluster import ChaosCluster
from tests.chaos.copies import not_whole
from tests.chaos.faults import Deck
from tests.chaos.log_roles import open_log, read_whole_log
from tests.chaos.recording import LogLine, MetadataLine, Recorder, merge
from tests.chaos.world import World
from tests.support.checker import check
from tests.support.history import History, hash_of
from zbk.client.api import Client
from zbk.errors import ZbkError
from zbk.metadata.values import decode
from zbk.protocol.entry.words import NO_ENTRY
from zbk.protocol.ledger.metadata import LedgerMetadata
from zbk.protocol.log.metadata import LogMetadata
from zbk.system.clock import monotonic_s

JUDGE_PATIENCE_S = 40.0
"""How long a healed cluster may take to close one ledger and to read it."""

TROUBLE_COUNT_MIN = 2
"""In each round, also where the machine is slow."""

RETRY_S = 0.3
READ_COUNT = 1_000  # entries in one recorded read of the judge


class Kept(msgspec.Struct, frozen=True):
    """What a closed ledger held when its round ended."""

    ledger_id: int
    last_entry_id: int
    hash: str


class Outcome(msgspec.Struct):
    """What a round did, and what was found."""

    faults: Counter[str]
    counts: Counter[str]
    violations: list[str]
    troubles: list[str]
    kept: list[Kept]


class Trouble(Exception):  # noqa: N818 - it says what kept the judge from judging
    """The harness itself failed, in words."""


class Judgement(Exception):  # noqa: N818 - it says what was found, and stops the round
    """A promise was broken, in words."""


def run_round(
    cluster: ChaosCluster,
    folder: Path,
    *,
    seed: int,
    seconds: float,
    deck: Deck,
    kept: Sequence[Kept],
) -> Outcome:
    """Run one round in a new folder."""
    folder.mkdir(parents=True)
    first_ledger_id = max(cluster.ledgers.list(), default=-1) + 1
    world = World(cluster, folder, random.Random(seed), first_ledger_id)
    outcome = Outcome(Counter(), Counter(), [], [], [])
    try:
        world.start_clients()
        deadline_s = monotonic_s() + seconds
        world.some_time(0.8, 1.5)  # Python starts, the first ledgers are made
        trouble_count = 0
        while monotonic_s() < deadline_s or trouble_count < TROUBLE_COUNT_MIN:
            trouble_count += 1
            _trouble(world, deck, outcome.faults)
        world.network.heal()
        world.end_clients()
        _judge(world, folder, outcome, kept)
    except (Trouble, ZbkError, subprocess.SubprocessError) as error:
        outcome.troubles.append(f"the harness got {type(error).__name__}: {error}")
    finally:
        world.network.heal()
        world.kill_clients()
    outcome.violations += world.broken
    outcome.violations += [f"a client ended by itself: {text}" for text in world.deaths]
    for index, death in cluster.bookies.deaths().items():
        outcome.violations.append(f"bookie {index} ended by itself: {death}")
    autorecovery = cluster.bookies.autorecovery
    if autorecovery is not None and autorecovery.exit_code is not None:
        outcome.violations.append(f"autorecovery ended by itself: {autorecovery.death()}")
    return outcome


def _trouble(world: World, deck: Deck, counts: Counter[str]) -> None:
    """Inject faults that overlap."""
    chosen = deck.deal()
    for fault in chosen:
        counts[fault.name] += 1
    running = [fault.inject(world) for fault in chosen]
    for one in running:
        next(one, None)
        world.some_time(0.0, 0.6)
    world.some_time(0.1, 1.5)
    for one in reversed(running):
        next(one, None)
    world.some_time(0.1, 1.0)


# ------------------------------------------------------------------ the judgement


def _judge(world: World, folder: Path, outcome: Outcome, kept: Sequence[Kept]) -> None:
    recorder = Recorder(folder / "judge.jsonl", "judge")
    try:
        with connect(world.cluster.uri) as client:  # past the network: it is there
            judge = _Judge(client, recorder)
            judge.close_and_read_everything(world, outcome)
            for one in kept:
                judge.compare(one)
            if world.cluster.has_autorecovery:
                ledger_ids = [*world.ledgers(), *(one.ledger_id for one in kept)]
                outcome.violations += not_whole(world.cluster.uri, ledger_ids)
    except Judgement as found:
        outcome.violations.append(str(found))
    history = _history(world)
    history.write(folder / "history.json")
    outcome.violations += map(str, check(history))
    outcome.counts = counts_of(history)
    outcome.counts["ledgers of earlier rounds"] = len(kept)


class _Judge:
    """Closes and reads what a round left. The cluster is healed, so everything has to work."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self._client = client
        self._recorder = recorder

    def close_and_read_everything(self, world: World, outcome: Outcome) -> None:
        """Take over the log, recover every ledger, read all.

        Raises:
            Judgement: something does not work, or has lost entries.
            Trouble: nothing works on this machine.
        """
        client, recorder = self._client, self._recorder
        self._patiently(lambda: open_log(client, recorder, world.log).close(), "take over the log")
        ledger_ids = world.ledgers()
        for ledger_id in ledger_ids:
            self._patiently(
                partial(recover_one, client, recorder, ledger_id), f"recover {ledger_id}"
            )
        for ledger_id in ledger_ids:
            outcome.kept.append(self._read_all(ledger_id))
        self._patiently(lambda: read_whole_log(client, recorder, world.log, "/log"), "read the log")

    def compare(self, one: Kept) -> None:
        """Compare a ledger of an earlier round with what it held then. Raises as above."""
        metadata = self._client.get_ledger_metadata(one.ledger_id)
        if metadata.last_entry_id != one.last_entry_id:
            raise Judgement(
                f"I11: the end of ledger {one.ledger_id} moved from {one.last_entry_id}"
            )
        if one.last_entry_id == NO_ENTRY:
            return
        hashes: list[str] = []

        def read() -> None:
            with self._client.open_ledger(one.ledger_id) as reader:
                hashes[:] = [hash_of(bytes(e.payload)) for e in reader.read(0, one.last_entry_id)]

        self._patiently(read, f"read ledger {one.ledger_id} of an earlier round")
        if hash_of("".join(hashes).encode()) != one.hash:
            raise Judgement(f"I3: ledger {one.ledger_id} of an earlier round has other bytes now")

    def _read_all(self, ledger_id: int) -> Kept:
        found: list[str] = []
        last = self._client.get_ledger_metadata(ledger_id).last_entry_id
        assert last is not None, "it was recovered"

        def read() -> None:
            found.clear()
            reading = Reading(self._client, self._recorder, ledger_id, f"/L{ledger_id}")
            for first in range(0, last + 1, READ_COUNT):
                found.extend(reading.read(first, min(last, first + READ_COUNT - 1)))

        self._patiently(read, f"read ledger {ledger_id} up to {last}")
        if len(found) != last + 1:
            raise Judgement(f"I3: ledger {ledger_id} ends at {last} and gave {len(found)} entries")
        return Kept(ledger_id, last, hash_of("".join(found).encode()))

    def _patiently(self, do: Callable[[], object], what: str) -> None:
        """Try until it works, for ``JUDGE_PATIENCE_S``."""
        deadline_s = monotonic_s() + JUDGE_PATIENCE_S
        pause = threading.Event()
        while True:
            try:
                do()
            except ZbkError as error:
                if monotonic_s() > deadline_s:
                    text = f"{what}: not within {JUDGE_PATIENCE_S:g} s on a healed cluster: "
                    text += f"{type(error).__name__}: {error}"
                    self._check_control(text)
                    raise Judgement(f"I35: {text}") from error
            else:
                return
            pause.wait(RETRY_S)

    def _check_control(self, what: str) -> None:
        """Write, close and read a ledger that no fault has met.

        Raises:
            Trouble: not even that works, so the machine or the harness is at fault.
        """
        try:
            with self._client.create_ledger(
                ensemble_size=3, write_quorum_size=3, ack_quorum_size=2
            ) as ledger:
                ledger.append(b"control")
            with self._client.open_ledger(ledger.ledger_id) as reader:
                list(reader.read(0, 0))
        except ZbkError as error:
            raise Trouble(f"{what}; a control ledger failed, too: {error}") from error


def _history(world: World) -> History:
    first = min(world.ledgers(), default=0)
    ledgers, logs = [], []
    for one in world.cluster.metadata_versions():
        if one.is_ledger:
            metadata = decode(LedgerMetadata, one.value, one.path)
            if metadata.ledger_id >= first:
                ledgers.append(MetadataLine(one.at_ns, one.version, metadata))
        elif one.is_log:
            log = decode(LogMetadata, one.value, one.path)
            if log.name == world.log:
                logs.append(LogLine(one.at_ns, log.name, one.version, log.ledger_ids))
    return merge(world.files(), ledgers, logs)


def counts_of(history: History) -> Counter[str]:
    """Return what was done and checked, by its name in the report; entries also by type."""
    types = {v.ledger_id: v.metadata.ledger_type.value for v in history.metadata.ledgers}
    counts: Counter[str] = Counter()
    for event in history:
        if event.kind == "ok" and event.ledger_id in types and event.call in _BY_TYPE:
            counts[f"{_BY_TYPE[event.call]}, {types[event.ledger_id]}"] += 1
        if event.call in ("add", "log_append"):
            counts["adds" if event.kind == "invoke" else f"adds {_WORDS[event.kind]}"] += 1
        elif event.kind == "ok" and event.call in _COUNTED:
            counts[_COUNTED[event.call]] += 1
        if event.error in ("LedgerFencedError", "LogFencedError"):
            counts["calls fenced"] += 1
    counts["ledgers"] = len({v.ledger_id for v in history.metadata.ledgers})
    counts["metadata versions"] = len(history.metadata.ledgers)
    counts["ensemble changes"] = sum(
        len(v.metadata.fragments) - 1 for v in history.metadata.ledgers if v.metadata.is_closed
    )
    return counts


_WORDS = {"ok": "acknowledged", "info": "of unknown outcome", "fail": "refused"}
_BY_TYPE = {"add": "adds acknowledged", "read": "entries read"}
_COUNTED = {
    "read": "entries read",
    "log_read": "entries read from logs",
    "recover": "recoveries",
    "close": "closes",
    "sync": "syncs",
    "log_own": "takeovers of logs",
}
