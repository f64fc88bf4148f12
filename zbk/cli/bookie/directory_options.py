"""Options of commands that work on the directories of a stopped bookie."""

from zbk.cli.config_options import config_options
from zbk.config import BookieConfig

directory_options = config_options(BookieConfig, ("journal_dir", "ledger_dir"))


def metadata_address(config: BookieConfig) -> str:
    """Return the address of the metadata store: the bookie's, or that of the running `zbk up`."""
    if config.metadata:
        return config.metadata
    from zbk.system.context import read_context

    return read_context() or ""
