"""Trees with one node for each ledger: the ledgers' metadata, and the tasks about ledgers.

``zbk.metadata.paths`` says how ids become paths. Any thread; every function blocks.
"""

from collections.abc import Iterator
from contextlib import suppress

from zbk.errors import NoNodeError
from zbk.metadata.paths import in_id_order, is_ledger_name
from zbk.metadata.stores.arguments import parent_of
from zbk.metadata.stores.store import MetadataStore


def walk_tree(store: MetadataStore, path: str, first: str = "") -> Iterator[str]:
    """Yield the paths of the nodes of ledgers below ``path``, in the order of their ids.

    Read the tree piece by piece; a node that comes or goes meanwhile may or may not be among them.
    With ``first``, a path, begin there or at the next node: parts before it are not read.

    Raises:
        NoNodeError: there is no ``path``.
    """
    for name in in_id_order(store.children(path)):
        child = f"{path}/{name}"
        if first and _order(child) < _order(first)[: child.count("/") + 1]:
            continue
        if is_ledger_name(name):
            yield child
            continue
        with suppress(NoNodeError):  # its last ledger was deleted since its name was read
            yield from walk_tree(store, child, first)


def count_tree(store: MetadataStore, path: str) -> int:
    """Return the number of nodes of ledgers below ``path``, as ``walk_tree``, from names alone."""
    names = store.children(path)
    inner = [name for name in names if not is_ledger_name(name)]
    count = len(names) - len(inner)
    for name in inner:
        with suppress(NoNodeError):
            count += count_tree(store, f"{path}/{name}")
    return count


def remove_empty_parents(store: MetadataStore, root: str, path: str) -> None:
    """Remove the parents of ``path`` below ``root`` that have become empty.

    Raises:
        NotEmptyError, NoNodeError: not all of them are empty.
    """
    parent = parent_of(path)
    while parent != root:
        store.delete(parent)
        parent = parent_of(parent)


def _order(path: str) -> tuple[tuple[int, str], ...]:
    """Return what compares like the ids below paths, see ``in_id_order``."""
    return tuple((len(name), name) for name in path.split("/"))
