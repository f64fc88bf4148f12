"""Configuration: what may be set, and where a value comes from."""

import doctest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zbk.config.sources
import zbk.config.units
from zbk.config import AutorecoveryConfig, BookieConfig, ClientConfig
from zbk.config.sources import build, convert, read_toml
from zbk.config.units import parse_duration_ms, parse_free, parse_size
from zbk.errors import InvalidOptionError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("512", 512),
        (" 64 KiB ", 65_536),
        ("64KiB", 65_536),
        ("1.5 MiB", 1_572_864),
        ("2 GB", 2_000_000_000),
        ("7 B", 7),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("250", 250),
        ("250ms", 250),
        ("2s", 2_000),
        ("1.5 s", 1_500),
        ("1min", 60_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
    ],
)
def test_durations(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "x", "-1", "1 TiB", "1,5 KiB", "0x10", "1e3", "KiB", "1 kib"])
def test_what_is_no_size_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"^entry_size_max="):
        parse_size(text, "entry_size_max")


@pytest.mark.parametrize("text", ["", "soon", "-1s", "1 w", "1:30"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match='such as "2s"'):
        parse_duration_ms(text)


@given(text=st.text(max_size=12))
def test_any_text_is_a_size_or_an_error_of_ours(text: str) -> None:
    try:
        assert parse_size(text) >= 0
    except InvalidOptionError:
        return


def test_the_first_source_that_has_a_value_wins() -> None:
    config = build(
        ClientConfig,
        flags={"window_size": "1 MiB", "batch_count_max": None},
        environment={"ZBK_CLIENT_WINDOW_SIZE": "2 MiB", "ZBK_CLIENT_BATCH_COUNT_MAX": "7"},
        table={"window_size": "3 MiB", "batch_count_max": 8, "request_timeout_ms": "9s"},
    )

    assert config.window_size == 1024 * 1024
    assert config.batch_count_max == 7
    assert config.request_timeout_ms == 9_000
    assert config.connect_timeout_ms == ClientConfig().connect_timeout_ms


def test_the_environment_of_a_bookie_is_not_that_of_a_client() -> None:
    environment = {"ZBK_BOOKIE_RACK": "r1", "ZBK_CLIENT_WINDOW_SIZE": "nonsense", "RACK": "r2"}

    assert build(BookieConfig, flags={}, environment=environment, table={}).rack == "r1"


@pytest.mark.parametrize("source", ["table", "flags"])
def test_an_unknown_key_suggests_the_one_that_was_meant(source: str) -> None:
    sources: dict[str, Any] = {"flags": {}, "environment": {}, "table": {}}
    sources[source] = {"windw_size": 1}

    with pytest.raises(InvalidOptionError, match="did you mean 'window_size'"):
        build(ClientConfig, **sources)


def test_the_value_of_an_unknown_key_is_not_told() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        convert(ClientConfig, {"pasword": "s3cret"})

    assert "pasword='...': unknown option" in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"window_size": 1},
        {"window_size": "65 KB of"},
        {"window_size": 1.5},
        {"window_size": None},
        {"batch_count_max": 0},
        {"entry_size_max": "65 MiB"},
        {"session_timeout_ms": "1ms"},
    ],
)
def test_a_value_of_the_wrong_kind_or_out_of_its_range_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError, match=next(iter(values))):
        convert(ClientConfig, values)


@pytest.mark.parametrize("value", [0.25, "0.25", 1, 0, "1e-1"])
def test_a_share_is_a_number_however_it_is_written(value: float | str) -> None:
    config = convert(BookieConfig, {"compaction_minor_threshold": value})
    assert config.compaction_minor_threshold == float(value)


@pytest.mark.parametrize("value", [-0.1, 1.1, "nan", "much", "20%", float("inf")])
def test_what_is_no_share_is_refused(value: float | str) -> None:
    with pytest.raises(InvalidOptionError, match="compaction_major_threshold"):
        convert(BookieConfig, {"compaction_major_threshold": value})


def test_the_options_of_compaction_come_from_the_environment() -> None:
    environment = {
        "ZBK_BOOKIE_COMPACTION_MINOR_THRESHOLD": "0.1",
        "ZBK_BOOKIE_COMPACTION_MAJOR_INTERVAL_MS": "12h",
        "ZBK_BOOKIE_COMPACTION_RATE_SIZE": "8 MiB",
    }
    config = build(BookieConfig, flags={}, environment=environment, table={})
    assert config.compaction_minor_threshold == 0.1
    assert config.compaction_major_interval_ms == 12 * 3_600_000
    assert config.compaction_rate_size == 8 * 1024 * 1024


def test_defaults_are_in_range() -> None:
    assert convert(BookieConfig, {}) == BookieConfig()
    assert convert(ClientConfig, {}) == ClientConfig()


def test_a_credit_too_small_for_one_entry_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="connection_credit_size"):
        convert(BookieConfig, {"entry_size_max": "32 MiB", "connection_credit_size": "33 MiB"})


def test_a_file_has_two_tables_and_nothing_else() -> None:
    text = '[bookie]\nrack = "r"\n[client]\nwindow_size = "1 MiB"\n'

    assert read_toml("zbk.toml", text) == {
        "bookie": {"rack": "r"},
        "client": {"window_size": "1 MiB"},
    }


@pytest.mark.parametrize("text", ["[boookie]\n", "rack = 1\n", "bookie = 1\n", "[bookie\n"])
def test_a_file_with_anything_else_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"zbk\.toml"):
        read_toml("zbk.toml", text)


def test_the_examples_in_the_docstrings_run() -> None:
    for module in (zbk.config.units, zbk.config.sources):
        failed, attempted = doctest.testmod(module)
        assert (failed, attempted > 0) == (0, True)


@pytest.mark.parametrize(
    ("value", "size"),
    [("5%", 50), ("0%", 0), ("2 KiB", 2048), ("300", 300), (300, 300), (0, 0), ("2.5 %", 25)],
)
def test_free_space_is_a_size_or_a_share_of_the_disk(value: int | str, size: int) -> None:
    assert parse_free(value).of(1000) == size


@pytest.mark.parametrize("value", ["100%", "-1", -1, "much", "%", "5 percent", 2**63])
def test_what_is_neither_a_size_nor_a_share_is_refused(value: int | str) -> None:
    with pytest.raises(InvalidOptionError, match="disk_readonly_free"):
        convert(BookieConfig, {"disk_readonly_free": value})


def test_a_limit_of_a_duration_is_a_duration_too() -> None:
    found = convert(AutorecoveryConfig, {"repair_retry_ms_max": "5min"})

    assert found.repair_retry_ms_max == 300_000
