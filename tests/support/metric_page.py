"""The tables of docs/metrics.md, made of the tables in the code.

python -m tests.support.metric_page      # writes them into the page
"""

import re
from pathlib import Path
from typing import Final

from zbk.metrics.alerts import ALERTS
from zbk.metrics.metric import Metric, Process
from zbk.metrics.table import METRICS

PAGE: Final = Path(__file__).parents[2] / "docs" / "metrics.md"

HEADINGS: Final[dict[tuple[Process, ...], str]] = {
    ("bookie", "autorecovery", "client", "console"): "Every process",
    ("bookie",): "Bookies",
    ("autorecovery",): "Autorecovery",
    ("client",): "Clients",
    ("console",): "Consoles",
}


def names_in(expression: str) -> set[str]:
    """Return the metrics of zbk that an expression of PromQL uses."""
    found = re.findall(r"\bzbk_[a-z_]+", expression)
    return {name.removesuffix("_bucket") for name in found}


def tables() -> str:
    """Return all tables, under their headings."""
    parts = []
    for processes, heading in HEADINGS.items():
        rows = [_row(metric) for metric in METRICS if metric.processes == processes]
        head = "| metric | kind | unit | labels | meaning | alert |\n|---|---|---|---|---|---|"
        if rows:
            parts.append("\n".join([f"### {heading}\n", head, *rows, ""]))
    assert sum(part.count("\n| `zbk_") for part in parts) == len(METRICS)
    return "\n".join(parts)


def page() -> tuple[str, str, str]:
    """Return the page: before the tables, the tables, after them."""
    text = PAGE.read_text("utf-8")
    before, begin, rest = text.partition("<!-- tables -->\n")
    inside, end, after = rest.partition("<!-- end of tables -->")
    return before + begin, inside, end + after


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    alerts = ", ".join(
        f"[{one.name}](runbooks.md#{one.name.lower()})"
        for one in ALERTS
        if metric.name in names_in(one.expression)
    )
    cells = [f"`{metric.name}`", metric.kind, metric.unit, labels, metric.help, alerts]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    before, _, after = page()
    PAGE.write_text(f"{before}{tables()}{after}", "utf-8")
