"""The wrong methods about data sets that ``tests.simulation.defects`` puts in."""

from zbk.protocol.dataset.dataset import Contents, DataSet, Load, LoadKind


def follows_whatever_is_last(self: DataSet, load: Load, contents: Contents) -> None:
    """S1: what others have committed since the overwrite began is gone."""
    if load.kind is LoadKind.APPEND:
        self.check_append(contents.schema_hash, contents.password_check)
