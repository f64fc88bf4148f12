"""The missing entries of a ledger as commands show them: by bookie, and the repair task."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zbk.cli.output import Format

if TYPE_CHECKING:
    from zbk.protocol.entry.spans import Span
    from zbk.protocol.repair.underreplicated import UnderreplicatedLedger


def missing_shown(missing: "Mapping[str, Sequence[Span]]", output: Format) -> Any:  # noqa: ANN401 - JSON, or a text
    """Return missing entries by bookie, as lists of first and last ids or as a text."""
    from zbk.protocol.entry.spans import spans_text

    if output == "json":
        return {bookie: [list(span) for span in spans] for bookie, spans in missing.items()}
    return "; ".join(f"{bookie}: {spans_text(spans)}" for bookie, spans in missing.items())


def task_shown(task: "UnderreplicatedLedger | None", output: Format) -> dict[str, Any]:
    """Return the fields ``repair`` and ``missing`` of a ledger; ``task`` is its repair task."""
    if task is None:
        return {"repair": None, "missing": missing_shown({}, output)}
    state = "unrepairable" if task.unrepairable else "waiting"
    why = task.unrepairable or task.failure
    reasons = {bookie: [str(one) for one in some] for bookie, some in task.missing.items()}
    shown: Any = {"state": state, "reasons": reasons, "why": why}
    if output != "json":
        named = ", ".join(f"{bookie} ({', '.join(some)})" for bookie, some in reasons.items())
        shown = f"{state}: {named}" + (f": {why}" if why else "")
    return {"repair": shown, "missing": missing_shown(task.ranges, output)}
