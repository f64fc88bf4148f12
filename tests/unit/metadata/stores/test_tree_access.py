"""Walks of a tree: which nodes come first, and what a limit leaves out."""

from zbk.errors import NoNodeError
from zbk.metadata.stores.node_rights import OPEN, Grant, Members, rights_on
from zbk.metadata.stores.tree_access import check_tree, nodes_of, secure_tree

MEMBERS = Members(operators=("sasl:me",))


class FakeTree:
    """A tree in memory. Nodes in ``vanishing`` go when they are examined."""

    def __init__(self, *paths: str, vanishing: tuple[str, ...] = ()) -> None:
        self.lists: dict[str, tuple[Grant, ...]] = dict.fromkeys(("/", *paths), OPEN)
        self.vanishing = vanishing
        self.own_identity = "sasl:me"
        self.members: Members | None = None
        self.steps: list[str] = []

    def change_members(self, members: Members) -> None:
        self.steps.append("members")
        self.members = members

    def grants(self, path: str) -> tuple[Grant, ...]:
        if path in self.vanishing:
            raise NoNodeError(path, "went")
        return self.lists[path]

    def change_grants(self, path: str, grants: tuple[Grant, ...]) -> None:
        self.steps.append(path)
        self.lists[path] = grants

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        below = (one.removeprefix(prefix) for one in self.lists if one.startswith(prefix))
        return sorted(name for name in below if name and "/" not in name)


def test_nodes_near_the_root_come_first() -> None:
    tree = FakeTree("/ledgers", "/ledgers/00", "/ledgers/00/L1", "/principals")

    found = [path for path, _ in nodes_of(tree)]

    assert found == ["/", "/ledgers", "/principals", "/ledgers/00", "/ledgers/00/L1"]


def test_a_limit_leaves_out_what_is_far_from_the_root() -> None:
    tree = FakeTree("/ledgers", "/ledgers/00", "/principals")

    counts = {one.kind: one.open_count for one in check_tree(tree, MEMBERS, 3)}

    assert counts == {"root": 1, "ledgers": 1, "principals": 1}


def test_a_node_that_went_is_no_error() -> None:
    tree = FakeTree("/ledgers", "/ledgers/L1", "/ledgers/L2", vanishing=("/ledgers/L1",))

    assert [path for path, _ in nodes_of(tree)] == ["/", "/ledgers", "/ledgers/L2"]


def at_once() -> None:
    """No other process runs."""


def test_a_node_of_a_process_that_had_not_heard_of_the_members_is_closed() -> None:
    tree = FakeTree("/ledgers")
    open_list = tree.lists["/ledgers"]

    def late() -> None:
        tree.lists["/ledgers/L1"] = open_list

    secure_tree(tree, MEMBERS, late)

    assert tree.lists["/ledgers/L1"] == rights_on("/ledgers/L1", MEMBERS)


def test_the_members_are_written_first_and_then_parents_before_children() -> None:
    tree = FakeTree("/ledgers", "/ledgers/L1")

    (root, ledgers) = secure_tree(tree, MEMBERS, at_once)

    assert tree.steps == ["members", "/", "/ledgers", "/ledgers/L1"]
    assert (root.changed_count, ledgers.changed_count) == (1, 2)
    assert tree.lists["/ledgers/L1"] == rights_on("/ledgers/L1", MEMBERS)
    tree.steps.clear()
    assert [one.changed_count for one in secure_tree(tree, MEMBERS, at_once)] == [0, 0]
    assert tree.steps == []
