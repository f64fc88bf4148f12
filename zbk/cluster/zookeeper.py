"""A real ZooKeeper on this machine: one server, for tests, demos and clusters of one host.

It listens on loopback, at a free port, without admin server, in a small heap; tests may put it into
its own network namespace. In its folder:

    zoo.cfg, log4j2.properties   written at each start
    data/                        snapshots and transaction log, which the next start continues
    zookeeper.log                warnings and errors; at most two files of 1 MiB
    zookeeper.out                the output of Java itself

It runs in its own session, so that Ctrl-C in a terminal reaches only its owner, which stops it
last. It does not outlive its owner: a shell of one line holds the other end of a pipe, and kills
the server when the owner ends, for any reason, and the pipe closes. (``prctl(PR_SET_PDEATHSIG)``
would need code between fork and exec, which is unsafe with threads, and acts when the *thread*
ends.)

One thread at a time may use it.
"""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import msgspec

from zbk.cluster.java import find_java, zookeeper_class_path
from zbk.errors import MetadataUnavailableError
from zbk.system.clock import monotonic_s
from zbk.system.interrupts import interrupted_later
from zbk.system.ports import PortLeases, free_ports, is_free_port
from zbk.system.private_file import open_private

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 10.0
PORT_ATTEMPT_COUNT_MAX: Final = 5
LOG_LINES_SHOWN: Final = 15
LOG_TAIL_SIZE: Final = 16 * 1024

_POLL_S = 0.02
_PROBE_TIMEOUT_S = 0.5
_TICK_MS = 500
_SESSION_TIMEOUT_MAX_MS = 600_000

_JAVA_OPTIONS = (
    "-Xms16m",
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xss512k",
    "-XX:MaxMetaspaceSize=64m",
    "-XX:ReservedCodeCacheSize=24m",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.4lw.commands.whitelist=srvr,conf",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.preAllocSize=4096",
)
_MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

# paths are relative to the folder, in which Java runs: they need no encoding or escaping
_CONFIGURATION = """\
tickTime={tick_ms}
dataDir=./data
clientPort={port}
clientPortAddress={host}
maxClientCnxns=0
minSessionTimeout={session_timeout_min_ms}
maxSessionTimeout={session_timeout_max_ms}
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
"""

_LOGGING = """\
status=error
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName=zookeeper.log
appender.file.filePattern=zookeeper.log.%i
appender.file.policies.type=SizeBasedTriggeringPolicy
appender.file.policies.size=1MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=1
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %-5p [%t] %c{1} - %m%n
rootLogger.level=warn
rootLogger.appenderRef.file.ref=file
"""

_KILL_WHEN_THE_PIPE_CLOSES = 'read -r _; kill -9 "$1"'


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """More options of a server: lines of ``zoo.cfg``, and arguments of Java."""

    configuration: tuple[str, ...] = ()
    java: tuple[str, ...] = ()
    has_netty: bool = False  # which TLS needs


NO_OPTIONS: Final = ServerOptions()


class LocalZooKeeper:
    """One ZooKeeper server with its folder.

    ``port`` 0 takes a free port, and keeps it for later starts of this object. ``host`` is the
    address to listen on. ``run_in`` is a command that executes the command after it, for example
    ``nsenter`` with a network namespace. ``options`` are more options of the server.

    >>> with LocalZooKeeper(folder) as zookeeper:  # doctest: +SKIP
    ...     store = open_store(zookeeper.uri())

    Raises:
        MissingDependencyError: no Java, or no jars; the text names the cures.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        host: str = HOST,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
        run_in: Sequence[str] = (),
        options: ServerOptions = NO_OPTIONS,
    ) -> None:
        self._folder = Path(folder).absolute()
        self._host = host
        self._port = port
        self._ports = PortLeases()  # the port stays this server's while it is down
        self._run_in = tuple(run_in)
        self._environment = dict(os.environ if environment is None else environment)
        self._java = find_java(self._environment)
        self._options = options
        self._jars, self._has_log = zookeeper_class_path(has_netty=options.has_netty)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._log_start = 0  # where the log of this start begins

    # -------------------------------------------------------------- start and stop

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Start the server and wait until it answers. Fine if it runs.

        Raises:
            MetadataUnavailableError: it does not start; the text has the end of its log.
        """
        if self.is_running:
            return self
        self._reap()
        deadline_s = monotonic_s() + timeout_s
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / "data").mkdir(mode=0o700, exist_ok=True)
        for _ in range(PORT_ATTEMPT_COUNT_MAX):
            port = self._port or self._ports.take() or free_ports(1)[0]
            self._launch(port)
            try:
                is_up = self._wait_ready(port, deadline_s)
            except BaseException:
                self.kill()
                raise
            if is_up:
                self._port = port
                return self
            self._reap()
            if self._port:
                raise self._failure(port, "the port is taken")
        raise self._failure(0, f"{PORT_ATTEMPT_COUNT_MAX} free ports were taken by others at once")

    def stop(self) -> None:
        """Stop the server; its data stays. Twice is fine."""
        with interrupted_later():
            if self._process is not None and self._process.poll() is None:
                self.resume()  # a paused process handles no signal
                self._process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(STOP_TIMEOUT_S)
            self.kill()

    def kill(self) -> None:
        """Stop the server with SIGKILL and wait for its end. Twice is fine."""
        with interrupted_later():
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._reap()

    def pause(self) -> None:
        """Pause the server (SIGSTOP): connections stay open without answers."""
        assert self._process is not None, "the server was started"
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a paused server."""
        assert self._process is not None, "the server was started"
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -------------------------------------------------------------- state

    @property
    def is_running(self) -> bool:
        """True while the process exists, paused or not."""
        with interrupted_later():
            return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None, "the server was started"
        return self._process.pid

    @property
    def port(self) -> int:
        """The port of the server; 0 before the first start."""
        return self._port

    def uri(self, root: str = "/zbk") -> str:
        """Return the address of a store below ``root``, for ``open_store``."""
        assert self._port, "the server was started"
        return f"zk://{self._host}:{self._port}{root}"

    # -------------------------------------------------------------- private

    def _launch(self, port: int) -> None:
        self._write(
            "zoo.cfg",
            _CONFIGURATION.format(
                tick_ms=_TICK_MS,
                port=port,
                host=self._host,
                session_timeout_min_ms=2 * _TICK_MS,
                session_timeout_max_ms=_SESSION_TIMEOUT_MAX_MS,
            )
            + "".join(f"{line}\n" for line in self._options.configuration),
        )
        command = [*self._run_in, str(self._java), *_JAVA_OPTIONS, *self._options.java]
        if self._has_log:
            self._write("log4j2.properties", _LOGGING)
            command.append("-Dlog4j2.configurationFile=log4j2.properties")
        log = self._folder / "zookeeper.log"
        self._log_start = log.stat().st_size if log.exists() else 0
        class_path = os.pathsep.join(str(jar) for jar in self._jars)
        output_path = self._folder / "zookeeper.out"
        with open(output_path, "wb", opener=open_private) as output:
            self._process = subprocess.Popen(
                [*command, "-cp", class_path, _MAIN_CLASS, "zoo.cfg"],
                cwd=self._folder,
                env=self._environment | {"LC_ALL": "C.UTF-8"},  # else Java loses folders like "é"
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                umask=0o077,
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _KILL_WHEN_THE_PIPE_CLOSES, "sh", str(self._process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _write(self, name: str, text: str) -> None:
        """Write a file of the server, for its owner only."""
        path = self._folder / name
        with open(path, "w", encoding="ascii", opener=open_private) as file:
            file.write(text)

    def _wait_ready(self, port: int, deadline_s: float) -> bool:
        """Wait until the server answers; return false if it ended because the port was taken."""
        assert self._process is not None, "the server was launched"
        pause = threading.Event()
        while self.is_running:
            # the folder shows that this server answers, not another one that got the port
            if "Mode:" in self._ask(port, b"srvr") and self._is_ours(self._ask(port, b"conf")):
                return True
            if monotonic_s() > deadline_s:
                raise self._failure(port, "it runs and does not answer")
            pause.wait(_POLL_S)
        is_local = self._host == HOST
        if "BindException" in self._log_tail() or (is_local and not is_free_port(port)):
            return False
        raise self._failure(port, f"it ended with exit code {self._process.returncode}")

    def _ask(self, port: int, command: bytes) -> str:
        """Return the answer to a four-letter word; empty if there is none."""
        answer = b""
        address = (self._host, port)
        with suppress(OSError), socket.create_connection(address, _PROBE_TIMEOUT_S) as connection:
            connection.sendall(command)
            while part := connection.recv(4096):
                answer += part
        return answer.decode(errors="replace")

    def _is_ours(self, configuration: str) -> bool:
        # characters that Java's locale cannot write are question marks: compare the rest
        return _plain(f"dataDir={self._folder}/") in _plain(configuration)

    def _failure(self, port: int, reason: str) -> MetadataUnavailableError:
        last_words = "".join(f"\n    {line}" for line in self._log_tail().splitlines())
        return MetadataUnavailableError(
            f"zk://{self._host}:{port}",
            f"ZooKeeper in {self._folder} did not start: {reason}; the end of its log:"
            f"{last_words or ' (it is empty)'}",
        )

    def _log_tail(self) -> str:
        """Return the last lines since this start, without the frames of stack traces."""
        lines: list[str] = []
        log = self._folder / "zookeeper.log"
        for path, start in ((log, self._log_start), (self._folder / "zookeeper.out", 0)):
            text = path.read_bytes()[start:] if path.exists() else b""
            tail = text[-LOG_TAIL_SIZE:].decode(errors="replace").splitlines()
            lines += [line for line in tail if not line.startswith("\t")][-LOG_LINES_SHOWN:]
        return "\n".join(lines)

    def _reap(self) -> None:
        """Forget an ended server; stop its guard before the process id is used again."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            assert self._guard.stdin is not None, "the guard reads a pipe"
            self._guard.stdin.close()
            self._guard = None


def _plain(text: str) -> str:
    return "".join(c for c in text if c.isascii() and c != "?")
