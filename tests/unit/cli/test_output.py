"""Tables and JSON."""

import base64
import doctest
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbk.cli import output
from zbk.cli.output import (
    PAGE_ROW_COUNT,
    bytes_value,
    preview,
    print_object,
    print_rows,
    rate_text,
    size_text,
    time_text,
)


def test_a_table_is_columns_as_wide_as_their_widest_cell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows: list[dict[str, object]] = [
        {"ledger_id": 7, "state": "OPEN"},
        {"ledger_id": 12345, "state": None},
    ]

    print_rows(rows, ["ledger_id", "state"], "table")

    assert capsys.readouterr().out == "LEDGER-ID  STATE\n7          OPEN\n12345      -\n"


def test_an_empty_table_is_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], ["ledger_id", "state"], "table")

    assert capsys.readouterr().out == "LEDGER-ID  STATE\n"


def test_many_rows_are_printed_as_they_come(capsys: pytest.CaptureFixture[str]) -> None:
    def rows() -> Iterator[dict[str, int]]:
        for number in range(3 * PAGE_ROW_COUNT):
            if number == 2 * PAGE_ROW_COUNT:
                shown = capsys.readouterr().out.splitlines()
                assert len(shown) > PAGE_ROW_COUNT, "the first pages are out before the last row"
            yield {"n": number}

    print_rows(rows(), ["n"], "table")

    assert capsys.readouterr().out.splitlines()[-1] == str(3 * PAGE_ROW_COUNT - 1)


def test_json_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"a": 1, "b": "é"}, {"a": None, "b": b"\xff"}], ["a"], "json")

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"a": 1, "b": "é"}, {"a": None, "b": {"base64": "/w=="}}]


def test_an_object_for_people_is_a_line_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"ledger_id": 7, "has_writer": True, "tags": {"job": b"nightly"}, "bookies": ["a", "b"]}

    print_object(value, "table")

    assert capsys.readouterr().out == (
        "ledger id   7\nhas writer  yes\ntags        job=nightly\nbookies     a,b\n"
    )


@given(value=st.binary(max_size=100))
def test_bytes_in_json_come_back(value: bytes) -> None:
    shown = bytes_value(value)

    assert base64.b64decode(shown["base64"]) == value
    assert shown.get("text", "").encode() in (value, b"")


@given(value=st.binary(max_size=200))
def test_a_preview_is_one_printable_line(value: bytes) -> None:
    shown = preview(value)

    assert shown.isprintable()
    assert shown.endswith("...") or len(value) <= 60 or value.endswith(b".")


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"", ""),
        (b"plain\r\n", "plain"),
        (b"tab\there", "tab here"),
        ("grüße".encode(), "grüße"),
        (b"\x1b[31mred", "1b5b33316d726564"),
        (b"ab" * 31, "ab" * 30 + "..."),
        (b"a" * 59 + "ü".encode(), "a" * 59 + "..."),
    ],
)
def test_previews(payload: bytes, shown: str) -> None:
    assert preview(payload) == shown


def test_numbers_for_people() -> None:
    assert [size_text(size) for size in (0, 1023, 1024, 1 << 20, 5 << 50)] == [
        "0 B", "1023 B", "1.0 KiB", "1.0 MiB", "5120.0 TiB",
    ]  # fmt: skip
    assert [rate_text(rate) for rate in (0.0, 9_999.0, 10_000.0, 1_234_567.0)] == [
        "0 /s", "9,999 /s", "10 k/s", "1,235 k/s",
    ]  # fmt: skip
    assert time_text(0) == "1970-01-01T00:00:00.000Z"


def test_the_examples_in_the_docstrings_run() -> None:
    failed, attempted = doctest.testmod(output)

    assert (failed, attempted > 0) == (0, True)
