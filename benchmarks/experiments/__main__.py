"""``python -m benchmarks.experiments``: break or slow a part of a cluster and measure the effect.

python -m benchmarks.experiments deletion   # many ledgers are deleted; one round of gc
python -m benchmarks.experiments encryption # appends with and without it, and handshakes
python -m benchmarks.experiments recovery   # a writer dies; its ledger is recovered
python -m benchmarks.experiments replacement # a bookie dies under a writer, PD and VD in turn
python -m benchmarks.experiments restart    # a bookie dies; it replays its journal
python -m benchmarks.experiments repair     # a bookie is lost; its ledgers are copied
python -m benchmarks.experiments striping   # a ledger on five bookies beside one on three
python -m benchmarks.experiments write --slow-bookie 50ms   # a bookie lags; a client writes
"""

import click

from zbk.cli.command import commands_of
from zbk.cli.main import ZbkGroup
from zbk.cli.streams import open_streams


@click.group(
    "experiments",
    cls=ZbkGroup,
    lazy=commands_of(
        "benchmarks.experiments",
        {
            "encryption": (
                "commands:encryption",
                "Measure appends with and without encryption, in turn, and handshakes.",
            ),
            "deletion": (
                "commands:deletion",
                "Delete many ledgers and measure the space that one round of gc returns.",
            ),
            "recovery": (
                "commands:recovery",
                "Kill a writer during its adds and measure the time to recover its ledger.",
            ),
            "replacement": (
                "commands:replacement",
                "Kill a bookie under a writer and measure how long appends wait.",
            ),
            "restart": (
                "commands:restart",
                "Kill a bookie and measure the time until its next start serves reads.",
            ),
            "repair": (
                "commands:repair",
                "Kill a bookie and measure how fast autorecovery repairs its ledgers.",
            ),
            "striping": (
                "commands:striping",
                "Write ledgers that are striped over five bookies beside ledgers on three.",
            ),
            "write": (
                "commands:write",
                "Measure appends to a temporary cluster whose fsyncs take longer.",
            ),
        },
    ),
    examples=[("python -m benchmarks.experiments recovery", "in a temporary cluster")],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def experiments() -> None:
    """Break or slow a part of a temporary cluster and measure the effect."""


if __name__ == "__main__":
    open_streams()
    experiments(prog_name="python -m benchmarks.experiments")
