"""A client process: ``python -m tests.chaos.client SPEC``, with the spec as JSON.

It plays its role until SIGTERM, or until the harness is gone, which closes its standard input.
"""

import os
import random
import signal
import sys
import threading
from pathlib import Path

import msgspec

import zbk
from tests.chaos.recording import Recorder
from zbk.errors import MetadataUnavailableError

OPTIONS: zbk.ClientOptions = {
    "request_timeout_ms": 1_000,
    "connect_timeout_ms": 3_000,
    "quorum_grace_ms": 2_000,
    "session_timeout_ms": 2_000,
    "default_timeout_ms": 20_000,
}
"""Of every client: short, so that a fault of a few seconds is a long one."""


RETRY_S = 0.3


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What a client process is told."""

    role: str
    name: str
    uri: str
    history: str  # path
    seed: int
    first_ledger_id: int = 0  # earlier ones are of other rounds
    ledger_ids: tuple[int, ...] = ()
    log: str = ""


class Stage(msgspec.Struct, frozen=True):
    """What a role plays with."""

    spec: Spec
    client: zbk.Client
    recorder: Recorder
    dice: random.Random
    is_over: threading.Event


def main() -> None:
    """Play the role that the spec names."""
    from tests.chaos.roles import ROLES  # noqa: PLC0415 - they need what is above

    spec = msgspec.json.decode(sys.argv[1], type=Spec)
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    threading.Thread(target=_end_with_harness, daemon=True).start()
    recorder = Recorder(Path(spec.history), spec.name)
    while not is_over.is_set():
        try:
            client = connect(spec.uri)
        except MetadataUnavailableError:  # a fault was quicker
            is_over.wait(RETRY_S)
            continue
        with client:
            ROLES[spec.role](Stage(spec, client, recorder, random.Random(spec.seed), is_over))
        return


def connect(uri: str) -> zbk.Client:
    """Connect as every client here does."""
    return zbk.connect(uri, **OPTIONS)


def _end_with_harness() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(3)


if __name__ == "__main__":
    main()
