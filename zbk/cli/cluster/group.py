"""``zbk cluster``: properties that a cluster keeps for its lifetime."""

from zbk.cli.command import command, commands_of, group
from zbk.cli.options import choice_option, metadata_option, output_option
from zbk.cli.output import Format, print_object


@command(
    "init",
    ("zbk cluster init --metadata zk://zk1:2181/zbk --layout flat", "before the first bookie"),
    ("zbk cluster init --metadata sqlite:///data/zbk.db", "with the default layout"),
)
@choice_option(
    "--layout",
    choices=["hierarchical", "flat"],
    default="hierarchical",
    help_text="How ledgers are stored: in a tree of nodes, for any number of ledgers, or in one "
    "node, for up to about ten thousand.",
)
@metadata_option
@output_option
def init(layout: str, metadata: str | None, output: Format) -> None:
    """Create a cluster in an empty metadata store.

    Only for a layout other than the default: `zbk bookie init` and `zbk up` create a missing
    cluster with the default layout. The layout cannot be changed later, so a store that holds a
    cluster is refused.
    """
    from zbk.errors import InvalidOptionError
    from zbk.metadata.records.instance import initialise_new
    from zbk.metadata.stores.connect import open_store
    from zbk.metadata.values import Layout, LedgerLayout

    if metadata is None:  # not that of the running `zbk up`: it holds a cluster
        raise InvalidOptionError("metadata", "", "give --metadata, or set ZBK_METADATA")
    store = open_store(metadata)
    try:
        instance = initialise_new(store, Layout(ledger_layout=LedgerLayout(layout)))
    finally:
        store.close()
    print_object({"metadata": metadata, "instance_id": instance, "layout": layout}, output)


@group(
    "cluster",
    commands_of(
        "zbk.cli.cluster",
        {
            "init": ("group:init", "Create a cluster in an empty metadata store."),
            "identity": ("secure:identity", "Show who this process is to ZooKeeper."),
            "secure": ("secure:secure", "Close a cluster's nodes in ZooKeeper to strangers."),
        },
    )
    | commands_of(
        "zbk.cli.health",
        {
            "check-security": (
                "check_security:check_security",
                "Show what of a running cluster is open to others.",
            ),
        },
    ),
    ("zbk cluster init --metadata zk://zk1:2181/zbk --layout flat", "before the first bookie"),
    ("zbk cluster secure --dry-run", "which nodes of ZooKeeper would change"),
)
def cluster() -> None:
    """Create clusters with a layout of your choice, and close them to strangers."""
