"""What every store refuses before it acts."""

import pytest

from zbk.errors import InvalidOptionError
from zbk.metadata.stores.arguments import (
    OPERATION_COUNT_MAX,
    PATH_SIZE_MAX,
    VALUE_SIZE_MAX,
    check_change,
    check_operations,
    check_path,
    check_value,
)
from zbk.metadata.stores.store import Check, Create, Delete, Operation, SetValue


@pytest.mark.parametrize("path", ["/", "/a", "/a/b.c:d-e_f", "/\u00e9", "/" + "a" * 1023])
def test_a_well_formed_path_is_accepted(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "//",
        "/a/",
        "/a//b",
        "/.",
        "/a/../b",
        "/a\n",
        "/a\0b",
        "/\ud800",
        "/" + "a" * PATH_SIZE_MAX,
    ],
)
def test_a_malformed_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidOptionError, match="path"):
        check_path(path)


def test_the_root_is_never_made_or_removed() -> None:
    with pytest.raises(InvalidOptionError, match="the root stays"):
        check_change("/")


def test_a_value_may_have_the_limit_and_no_more() -> None:
    check_value(bytes(VALUE_SIZE_MAX))
    with pytest.raises(InvalidOptionError, match="value"):
        check_value(bytes(VALUE_SIZE_MAX + 1))


@pytest.mark.parametrize(
    "operations",
    [
        [Create("a")],
        [Create("/")],
        [Delete("/")],
        [SetValue("", b"", 0)],
        [Check("/a/", 0)],
        [Create("/a", bytes(VALUE_SIZE_MAX // 2)), SetValue("/b", bytes(VALUE_SIZE_MAX // 2), 0)],
        [Check("/a", 0)] * (OPERATION_COUNT_MAX + 1),
    ],
    ids=["relative", "root", "no root", "empty", "slash", "too large together", "too many"],
)
def test_a_multi_is_checked_as_a_whole(operations: list[Operation]) -> None:
    with pytest.raises(InvalidOptionError):
        check_operations(operations)
