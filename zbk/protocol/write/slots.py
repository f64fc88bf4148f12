"""The slots of a writer: which are up, in which life of their bookie, and why others are down."""

from collections.abc import Mapping, Sequence

from zbk.errors import (
    BookieUnavailableError,
    MalformedMessageError,
    WrongBookieError,
    ZbkError,
)
from zbk.protocol.entry.words import NO_ENTRY


class _Slot:
    """A place in the ensemble and the connection to its bookie."""

    __slots__ = ("bookie", "incarnation", "is_failed", "is_up", "last_error")

    def __init__(self, bookie: str) -> None:
        self.bookie = bookie
        self.is_up = False
        self.is_failed = False  # it is down, and not only because it was not connected yet
        self.incarnation = NO_ENTRY  # below any
        self.last_error: ZbkError | None = None

    @property
    def error(self) -> ZbkError:
        """Why it is, or was last, down."""
        return self.last_error or BookieUnavailableError(self.bookie, "not connected yet")


class WriterSlots:
    """The state of each slot. All start down.

    Invariants: the incarnation of a bookie never goes down; ``live`` and ``down`` part the
    ensemble; ``failed`` are down.
    """

    __slots__ = (
        "_slots",
        "down",
        "epochs",
        "failed",
        "incarnations",
        "live",
    )

    def __init__(self, ensemble: Sequence[str]) -> None:
        self._slots = [_Slot(bookie) for bookie in ensemble]
        self.live: tuple[int, ...] = ()
        self.down: tuple[int, ...] = tuple(range(len(ensemble)))
        self.failed: tuple[int, ...] = ()
        self.incarnations: tuple[int | None, ...] = (None,) * len(ensemble)  # None: it is down
        self.epochs = [0] * len(ensemble)  # by slot: how often its bookie was replaced

    def __len__(self) -> int:
        """Return the ensemble size."""
        return len(self._slots)

    @property
    def bookies(self) -> tuple[str, ...]:
        """The bookie ids, by slot."""
        return tuple(slot.bookie for slot in self._slots)

    def bookie(self, index: int) -> str:
        """Return the id of a slot's bookie."""
        return self._slots[index].bookie

    def replace(self, ensemble: Sequence[str]) -> list[int]:
        """Put the bookies of an ensemble into their slots; return the slots with another one.

        A new bookie's slot is down until it is connected, and in its next epoch.
        """
        replaced = [i for i, slot in enumerate(self._slots) if slot.bookie != ensemble[i]]
        for index in replaced:
            self._slots[index] = _Slot(ensemble[index])
            self.epochs[index] += 1
        self._part()
        return replaced

    def up(self, index: int, incarnation: int) -> bool:
        """Record a connection; return whether the bookie has restarted since the last one.

        Raises:
            WrongBookieError: it is in an earlier life than before; the slot stays down.
        """
        slot = self._slots[index]
        if incarnation < slot.incarnation:
            raise WrongBookieError(f"bookie {slot.bookie} came back in an earlier incarnation")
        is_restart = NO_ENTRY < slot.incarnation < incarnation
        slot.incarnation = incarnation
        slot.is_up = True
        slot.is_failed = False
        self._part()
        return is_restart

    def go_down(self, index: int, error: ZbkError | None = None) -> None:
        """Record a lost connection, and why if that is known."""
        slot = self._slots[index]
        slot.is_up = False
        slot.is_failed |= error is not None
        slot.last_error = error or slot.last_error
        self._part()

    def is_answer_valid(self, index: int, incarnation: int) -> bool:
        """Return whether an answer is of the connection and the life that count.

        Raises:
            WrongBookieError: it comes from a later life: the bookie restarted unseen.
        """
        slot = self._slots[index]
        if not slot.is_up or incarnation < slot.incarnation:
            return False
        if incarnation > slot.incarnation:
            raise WrongBookieError(f"bookie {slot.bookie} has restarted")
        return True

    def check_synced(self, index: int, last_add_synced: int, last_pushed_id: int) -> None:
        """Accept a ``LastAddSynced`` that may be true.

        Raises:
            MalformedMessageError: the bookie says that it synced what was never written.
        """
        if last_add_synced > last_pushed_id:
            raise MalformedMessageError(
                f"bookie {self._slots[index].bookie} says that it synced entry {last_add_synced}, "
                f"the last one written is {last_pushed_id}"
            )

    def error_of(self, index: int) -> ZbkError:
        """Return why a slot is, or was last, down."""
        return self._slots[index].error

    def why_down(self) -> str:
        """Return why which slots are down, for the text of an error."""
        return self.text({index: self._slots[index].error for index in self.down}) or "none is down"

    def text(self, errors: Mapping[int, ZbkError]) -> str:
        """Return errors by slot as one line."""
        return "; ".join(
            f"slot {index} ({self._slots[index].bookie}): {error}"
            for index, error in sorted(errors.items())
        )

    def _part(self) -> None:
        numbered = list(enumerate(self._slots))
        self.live = tuple(index for index, slot in numbered if slot.is_up)
        self.down = tuple(index for index, slot in numbered if not slot.is_up)
        self.failed = tuple(index for index, slot in numbered if slot.is_failed)
        self.incarnations = tuple(slot.incarnation if slot.is_up else None for slot in self._slots)
