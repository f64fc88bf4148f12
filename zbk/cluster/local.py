"""A cluster on this machine: a metadata store, and bookies that are processes of their own.

Used by ``zbk up``, ``zbk demo``, the benchmarks and the tests. Bookies are numbered from 0. The
folder holds:

    cluster.json            the record of the cluster (``local_state``)
    lock                    held while a ``LocalCluster`` runs here
    metadata.db             SQLite metadata, unless there is a ZooKeeper
    zookeeper/              data and log of the ZooKeeper started here
    bookie0/journal/        a bookie's directories
    bookie0/ledgers/
    bookie0.log             its log over all starts; ``rotate_logs`` moves it to bookie0.log.1
    autorecovery.log        the log of ``zbk autorecovery run``, if it was started

A cluster in the folder is started again on its data, with bookies at their former ports if these
are free. All processes listen on loopback only.
"""

import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

import msgspec

from zbk.cluster import BOOKIE_COUNT_MAX, local_state
from zbk.cluster.child import Child
from zbk.cluster.local_state import BookieSeat, ClusterState
from zbk.cluster.new_bookie import make_bookie
from zbk.config import BookieConfig
from zbk.config.http_address import http_of_process
from zbk.config.sources import convert
from zbk.errors import BookieError, DirectoryInUseError, InvalidOptionError
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.stores.connect import open_store
from zbk.metadata.values import BookieRegistration
from zbk.system.clock import monotonic_s
from zbk.system.files import OsFiles
from zbk.system.ports import PortLeases

START_TIMEOUT_S: Final = 30.0
LOOK_INTERVAL_S: Final = 0.03
BOOKIE_PROGRAM: Final = ("-m", "zbk", "bookie", "run")

SESSION_TIMEOUT_MS: Final = 4_000
"""The time that a killed bookie stays registered; short, because no network delays a session."""

ZOOKEEPER_ROOT: Final = "/zbk"


class LocalBookie(msgspec.Struct, frozen=True, kw_only=True):
    """One bookie as it runs, or last ran."""

    index: int
    bookie_id: str
    pid: int
    address: str
    incarnation: int
    folder: Path
    http: str = ""  # URL of its metrics and health


class LocalCluster:
    """Starts, breaks and stops a cluster on this machine. One thread at a time may use it.

    >>> with LocalCluster(folder) as cluster:  # doctest: +SKIP
    ...     client = zbk.connect(cluster.metadata_uri)
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        bookie_count: int = 3,
        use_zookeeper: bool = False,
        metadata: str | None = None,
        bookie_options: Mapping[str, int | str] | None = None,
        bookie_flags: Sequence[str] = (),
        bookie_programs: Mapping[int, Sequence[str]] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        """``bookie_options`` are fields of ``BookieConfig``; a ``metadata`` URI starts no store.

        ``bookie_flags`` are more arguments of ``zbk bookie run``, for all bookies.

        ``bookie_programs`` has, by number, the bookies that run another program than
        ``zbk bookie run``: arguments of Python, before the options of a bookie, which are added.
        ``start_timeout_s``: the time that bookies have to register, and a ZooKeeper to answer.
        """
        if not 1 <= bookie_count <= BOOKIE_COUNT_MAX:
            raise InvalidOptionError(
                "bookies", bookie_count, f"must be between 1 and {BOOKIE_COUNT_MAX}"
            )
        if metadata and use_zookeeper:
            raise InvalidOptionError(
                "zookeeper", metadata, "a metadata store is given: nothing is started beside it"
            )
        self.folder = Path(folder).absolute()
        self._bookie_count = bookie_count
        self._kind = metadata or ("zookeeper" if use_zookeeper else "sqlite")
        self._options = {"session_timeout_ms": SESSION_TIMEOUT_MS, **(bookie_options or {})}
        convert(BookieConfig, self._options)  # refuses wrong ones before anything is created
        self._flags = tuple(bookie_flags)
        self._programs = dict(bookie_programs or {})
        self._start_timeout_s = start_timeout_s
        self._uri = ""
        self._seats: list[BookieSeat] = []
        self._ports = PortLeases()
        self._children: dict[int, Child] = {}
        self._bookies: dict[int, LocalBookie] = {}
        self._is_expected_down: set[int] = set()
        self._autorecovery: Child | None = None
        self._exit = ExitStack()
        self._registry: BookieRegistry | None = None

    # -------------------------------------------------------------- start and stop

    def start(self) -> Self:
        """Start the metadata store and all bookies; return when every one is registered.

        Raises:
            InvalidOptionError: the folder holds other files.
            DirectoryInUseError: another cluster runs in the folder.
            BookieError: a bookie ended; the text has the end of its log.
        """
        try:
            self._take_folder()
            self._start_metadata()
            self._init_bookies()
            self._start_bookies(range(self._bookie_count))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop autorecovery, bookies, then the metadata store. Twice is fine."""
        with self._exit, ExitStack() as bookies:  # what fails keeps nothing else from its end
            for child in self._children.values():
                bookies.callback(child.wait_stopped)
            for child in reversed(self._children.values()):  # the last is called first
                bookies.callback(child.ask_to_stop)
            self._children.clear()
            self.stop_autorecovery()

    def start_autorecovery(
        self, options: Mapping[str, int | str] | None = None, flags: Sequence[str] = ()
    ) -> int:
        """Start an auditor and a replication worker as a process of its own; return its pid.

        ``options`` are fields of ``AutorecoveryConfig``, ``flags`` more arguments.
        """
        assert self._autorecovery is None, "one is enough"
        command = self._autorecovery_command(options or {}) + list(flags)
        self._autorecovery = Child("autorecovery", command, self.folder / "autorecovery.log")
        return self._autorecovery.pid

    @property
    def autorecovery(self) -> Child | None:
        """The autorecovery process, if one was started and not stopped; it may have ended."""
        return self._autorecovery

    def stop_autorecovery(self) -> None:
        """Stop it cleanly. Twice is fine."""
        child, self._autorecovery = self._autorecovery, None
        if child is not None:
            child.ask_to_stop()
            child.wait_stopped()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -------------------------------------------------------------- state

    @property
    def metadata_uri(self) -> str:
        """The address for ``zbk.connect``."""
        return self._uri

    @property
    def metadata_kind(self) -> str:
        """``sqlite``, ``zookeeper``, or the URI of an existing store."""
        return self._kind

    @property
    def bookies(self) -> list[LocalBookie]:
        """The bookies by number, running or not."""
        return [self._bookies[index] for index in sorted(self._bookies)]

    def deaths(self) -> dict[int, BookieError]:
        """Return the bookies that ended by themselves; the errors have the ends of their logs."""
        found = {}
        for index, child in self._children.items():
            if index not in self._is_expected_down and child.exit_code is not None:
                found[index] = child.death()
        return found

    def rotate_logs(self) -> None:
        """Rotate the logs of processes that have become large."""
        for child in (*self._children.values(), self._autorecovery):
            if child is not None:
                child.rotate_log()

    def running_ids(self) -> set[str]:
        """Return the ids of running bookies: child processes, and those started by hand.

        A registration left by a dead child process does not count.

        Raises:
            MetadataUnavailableError: the metadata store does not answer.
        """
        assert self._registry is not None, "the cluster was started"
        running = set()
        left: dict[str, int] = {}
        for index, child in self._children.items():
            bookie = self._bookies[index]
            if child.exit_code is None:
                running.add(bookie.bookie_id)
            else:
                left[bookie.bookie_id] = bookie.incarnation
        registered = self._registry.available() | self._registry.readonly()
        for bookie_id, found in registered.items():
            if found.incarnation > left.get(bookie_id, 0):
                running.add(bookie_id)
        return running

    def command_by_hand(self, index: int) -> list[str]:
        """Return the command that starts a bookie again, in its directories, at its port."""
        options = self._bookie_options(index, self._seats[index].port)
        return ["zbk", "bookie", "run", *_arguments(options), *self._flags]

    # -------------------------------------------------------------- faults

    def kill(self, index: int) -> None:
        """Stop a bookie with SIGKILL: bytes that it had not fsynced are only in the page cache."""
        self._is_expected_down.add(index)
        self._children[index].kill()

    def terminate(self, index: int) -> int:
        """Stop a bookie cleanly (SIGTERM); return its exit code."""
        self._is_expected_down.add(index)
        self._children[index].ask_to_stop()
        return self._children[index].wait_stopped()

    def restart(self, index: int) -> LocalBookie:
        """Start a bookie that was killed or stopped, in its directories, at its port.

        Raises:
            BookieError: the bookie did not start.
        """
        self._children[index].ask_to_stop()
        self._children[index].wait_stopped()
        self._start_bookies([index])
        return self._bookies[index]

    def pause(self, index: int) -> None:
        """Pause a bookie's process (SIGSTOP)."""
        self._children[index].pause()

    def resume(self, index: int) -> None:
        """Resume a paused bookie."""
        self._children[index].resume()

    # -------------------------------------------------------------- private

    def _take_folder(self) -> None:
        files = OsFiles()
        is_new = not local_state.has_state(self.folder)
        files.make_dirs(str(self.folder))
        lock = files.lock(str(self.folder / "lock"))
        if lock is None:
            raise DirectoryInUseError(
                f"{self.folder} is in use by another local cluster: stop that one "
                "(Ctrl-C in its terminal), or give another folder with --data"
            )
        self._exit.callback(lock.close)
        self._exit.callback(self._ports.release)
        if is_new:
            self._save()  # the next start continues this one, wherever it is interrupted
            return
        state = local_state.read_state(self.folder)
        local_state.check_fits(state, self.folder, self._kind, self._bookie_count)
        self._seats = list(state.bookies)

    def _start_metadata(self) -> None:
        match self._kind:
            case "sqlite":
                self._uri = f"sqlite://{quote(str(self.folder))}/metadata.db"
            case "zookeeper":
                from zbk.cluster.zookeeper import LocalZooKeeper  # noqa: PLC0415 - looks for Java

                zookeeper = LocalZooKeeper(self.folder / "zookeeper")
                self._exit.callback(zookeeper.stop)
                zookeeper.start(self._start_timeout_s)
                self._uri = zookeeper.uri(ZOOKEEPER_ROOT)
            case uri:
                self._uri = uri

    def _init_bookies(self) -> None:
        for index in range(len(self._seats), self._bookie_count):
            config = convert(BookieConfig, self._bookie_options(index, port=0))
            self._seats.append(BookieSeat(make_bookie(config)))
            self._save()
        store = open_store(self._uri)
        self._exit.callback(store.close)
        self._registry = BookieRegistry(store)

    def _bookie_options(self, index: int, port: int) -> dict[str, int | str]:
        folder = self.folder / f"bookie{index}"
        return (
            self._options
            | {
                "metadata": self._uri,
                "journal_dir": str(folder / "journal"),
                "ledger_dir": str(folder / "ledgers"),
                "listen": f"tcp://127.0.0.1:{port}",
            }
            | self._http_option(index)
        )

    def _http_option(self, number: int) -> dict[str, int | str]:
        """Return the option of one process: that of bookie 0 may be given; ports follow it."""
        given = self._options.get("http")
        return {} if given is None else {"http": http_of_process(str(given), number)}

    def _start_bookies(self, indexes: Sequence[int]) -> None:
        found = {index: self._registration(index) for index in indexes}  # maybe just killed
        former = {index: 0 if one is None else one.incarnation for index, one in found.items()}
        ports = {seat.port for seat in self._seats}
        for index in indexes:
            port = self._ports.take(self._seats[index].port, taken=ports)
            ports.add(port)
            command = self._bookie_command(index, port)
            log_path = self.folder / f"bookie{index}.log"
            self._children[index] = Child(f"bookie {index}", command, log_path)
            self._is_expected_down.discard(index)
        deadline_s = monotonic_s() + self._start_timeout_s
        for index in indexes:
            self._wait_registered(index, former[index], deadline_s)
        self._save()

    def _bookie_command(self, index: int, port: int) -> list[str]:
        program = self._programs.get(index, BOOKIE_PROGRAM)
        options = _arguments(self._bookie_options(index, port))
        return [sys.executable, *program, "--stop-with-parent", *options, *self._flags]

    def _autorecovery_command(self, options: Mapping[str, int | str]) -> list[str]:
        given: dict[str, int | str] = {"metadata": self._uri}
        given["session_timeout_ms"] = SESSION_TIMEOUT_MS
        given |= self._http_option(self._bookie_count) | dict(options)
        program = ("-m", "zbk", "autorecovery", "run", "--stop-with-parent")
        return [sys.executable, *program, *_arguments(given)]

    def _registration(self, index: int) -> BookieRegistration | None:
        assert self._registry is not None, "the cluster was started"
        return self._registry.resolve(self._seats[index].bookie_id)

    def _wait_registered(self, index: int, former_incarnation: int, deadline_s: float) -> None:
        child = self._children[index]
        while True:
            if child.exit_code is not None:
                raise child.death()
            found = self._registration(index)
            if found is not None and found.incarnation > former_incarnation:
                break
            if monotonic_s() > deadline_s:
                last_words = "".join(f"\n    {line}" for line in child.log_tail())
                raise BookieError(
                    f"bookie {index} runs and is not registered after {self._start_timeout_s:g} s; "
                    "if it replays its journal, give it longer (`zbk up --start-timeout 5min`); "
                    f"the end of its log:{last_words}"
                )
            threading.Event().wait(LOOK_INTERVAL_S)
        bookie_id = self._seats[index].bookie_id
        self._bookies[index] = LocalBookie(
            index=index,
            bookie_id=bookie_id,
            pid=child.pid,
            address=found.address,
            incarnation=found.incarnation,
            folder=self.folder / f"bookie{index}",
            http=found.http or "",
        )
        self._seats[index] = BookieSeat(bookie_id, int(found.address.rpartition(":")[2]))

    def _save(self) -> None:
        local_state.write_state(
            self.folder, ClusterState(metadata=self._kind, bookies=tuple(self._seats))
        )


def _arguments(options: Mapping[str, int | str]) -> list[str]:
    """Return options as arguments of a command."""
    return [w for name in options for w in (f"--{name.replace('_', '-')}", str(options[name]))]
