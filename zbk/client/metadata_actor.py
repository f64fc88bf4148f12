"""The actor that waits for the metadata store, so that writers do not.

mailbox     MetadataTask, from writers and the client
answers     the task's ``done`` with a result or an error, in this actor's thread
owns        nothing: the store is shared and thread-safe
on failure  cannot fail: whatever a task raises is its answer
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pykka

from zbk.errors import MetadataUnavailableError, ZbkError
from zbk.system.light_inbox import LightInbox


class MetadataTask(msgspec.Struct, frozen=True):
    """Something to ask of the metadata store, and where its outcome goes."""

    run: Callable[[], Any]
    done: Callable[[Any | ZbkError], None]


class MetadataActor(LightInbox, pykka.ThreadingActor):
    """Runs tasks against the metadata store, one after another."""

    use_daemon_thread = True

    def on_receive(self, message: MetadataTask) -> None:
        """Run one task."""
        try:
            outcome = message.run()
        except ZbkError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001 - a foreign error must not end the actor
            outcome = MetadataUnavailableError("metadata store", f"{type(error).__name__}: {error}")
        message.done(outcome)
