"""Cases: the commands that each runs, and its rows of the report.

A *step* is one ``zbk bench`` command, or one of ``benchmarks.experiments``. A *round* runs the
steps of a case in turn; a case has several rounds, because machines drift. The lines of a round
give *figures*, numbers by name; a *row* compares their medians with a goal.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

MIB: Final = 1 << 20

Line = dict[str, Any]
"""One JSON object printed by a command."""

Round = Mapping[str, Sequence[Line]]
"""The output of the commands of one round, by step."""

Figures = dict[str, float]


class Amount(msgspec.Struct, frozen=True):
    """An option for an amount; a quick run takes a share of it."""

    option: str
    value: int
    unit: str = ""
    least: int = 1

    def words(self, divisor: int) -> tuple[str, str]:
        """Return the option and its value.

        >>> Amount("--seconds", 20, "s").words(10)
        ('--seconds', '2s')
        """
        return self.option, f"{max(self.least, self.value // divisor)}{self.unit}"


class Step(msgspec.Struct, frozen=True):
    """One ``zbk bench`` command, or one experiment."""

    name: str
    words: tuple[str, ...]  # after ``zbk bench``, or after the experiments' module
    amounts: tuple[Amount, ...] = ()
    is_on_zookeeper: bool = True  # the floor has no metadata
    is_experiment: bool = False
    timeout_s: int = 300  # in addition to the seconds of the load

    def command(self, divisor: int = 1) -> tuple[str, ...]:
        """Return the words after ``python -m``, with a share of the amounts."""
        amounts = [word for amount in self.amounts for word in amount.words(divisor)]
        metadata = ("--zookeeper",) if self.is_on_zookeeper else ()
        program = ("benchmarks.experiments",) if self.is_experiment else ("zbk", "bench")
        return (*program, *self.words, *amounts, *metadata)

    @property
    def seconds_max(self) -> int:
        """Time after which the step counts as stuck."""
        loading = [amount.value for amount in self.amounts if amount.option == "--seconds"]
        return self.timeout_s + sum(loading)


class Bound(msgspec.Struct, frozen=True):
    """A limit for the median of a figure."""

    figure: str
    limit: float = 0.0
    is_least: bool = True  # at least; else at most
    lowest_of: str = ""  # the limit is the lowest value that this figure had

    def holds(self, median: Mapping[str, float], spread: Mapping[str, Sequence[float]]) -> bool:
        """Return whether the median is within the limit."""
        limit = spread[self.lowest_of][0] if self.lowest_of else self.limit
        value = median[self.figure]
        return value >= limit if self.is_least else value <= limit


class Way(msgspec.Struct, frozen=True):
    """One way to reach a goal: all of its bounds hold."""

    name: str  # the report's name for the way that reached a goal
    bounds: tuple[Bound, ...]


class PeerShape(msgspec.Struct, frozen=True):
    """The shape of a load; peers' results of the same shape stand beside it."""

    entry_size: int  # bytes of payload
    api: str
    ledger_count: int = 1  # in each process
    process_count: int = 1


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the report's table; any of its ways is enough."""

    title: str
    goal: str  # in words
    step: str  # whose command is shown
    unit: str  # of ``zbk`` and ``floor`` (``value_text``)
    zbk: str  # figures, by name
    floor: str = ""
    ratio: str = ""
    peer_shape: PeerShape | None = None  # peers' results of this shape are shown
    peer_field: str = ""  # their field that is shown
    ways: tuple[Way, ...]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that are measured together, and their rows in the report."""

    name: str
    title: str
    steps: tuple[Step, ...]
    read: Callable[[Round], Figures]
    rows: tuple[Row, ...] = ()  # none: only for pictures
    seconds: int  # expected time of a round
    round_count: int | None = None  # None: that of the suite


def at_least(figure: str, limit: float) -> Bound:
    """Return a lower bound."""
    return Bound(figure, limit)


def at_most(figure: str, limit: float) -> Bound:
    """Return an upper bound."""
    return Bound(figure, limit, is_least=False)


def way(name: str, *bounds: Bound) -> Way:
    """Return one way to reach a goal."""
    return Way(name, bounds)


def rate_text(value: float) -> str:
    """Return a figure in a few characters.

    >>> rate_text(450_000), rate_text(1_500_000), rate_text(260), rate_text(3_830)
    ('450 k', '1.5 M', '260', '3.83 k')
    """
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    return f"{value / 1e3:.4g} k" if value >= 1e3 else f"{value:.3g}"


def value_text(value: float, unit: str) -> str:
    """Return a figure with its unit.

    >>> value_text(450_000, "entries/s"), value_text(0.712, "ms"), value_text(3 << 20, "MiB")
    ('450 k/s', '0.71 ms', '3.0 MiB')
    """
    match unit:
        case "entries/s":
            return f"{rate_text(value)}/s"
        case "MB/s":
            return f"{value:.0f} MB/s"
        case "MiB":
            return f"{value / MIB:.1f} MiB"
        case _:
            return f"{value:.2f} {unit}"


def size_text(size: int) -> str:
    """Return bytes with their unit.

    >>> size_text(100), size_text(16384)
    ('100 B', '16 KiB')
    """
    return f"{size // 1024} KiB" if size >= 1024 else f"{size} B"
