"""`zbk bookie ls|show`, and how options become a configuration."""

import json
import re
from pathlib import Path

import pytest

from tests.support.cli import Run
from zbk.cli.config_options import server_config
from zbk.config import BookieConfig, SecurityConfig
from zbk.config.sources import convert
from zbk.errors import InvalidOptionError

NO_FLAGS: dict[str, None] = dict.fromkeys([*BookieConfig.__struct_fields__, "config_file"])


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in NO_FLAGS:
        monkeypatch.delenv(f"ZBK_BOOKIE_{name.upper()}", raising=False)


def test_every_field_of_the_configuration_is_an_option(run: Run) -> None:
    text = run("bookie", "run", "--help").output

    for name in BookieConfig.__struct_fields__:
        assert f"--{name.replace('_', '-')} " in text


def test_the_defaults_in_the_help_are_what_one_may_type(run: Run) -> None:
    text = " ".join(run("bookie", "run", "--help").output.split())
    shown = dict(
        re.findall(
            r"--([a-z-]+) (?:SIZE|DURATION|COUNT)\b[^[]*\[env var: \w+; default: ([^]]+)\]", text
        )
    )

    typed = {name.replace("-", "_"): value for name, value in shown.items()}
    of_security = {
        name: typed.pop(name) for name in SecurityConfig.__struct_fields__ if name in typed
    }
    assert convert(SecurityConfig, of_security) == SecurityConfig()
    assert of_security["audit_file_size_max"] == "64 MiB"
    assert convert(BookieConfig, typed) == BookieConfig()
    assert typed["journal_segment_size"] == "64 MiB"
    assert typed["checkpoint_interval_ms"] == "10s"


def test_flags_win_over_environment_over_file_over_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "zbk.toml"
    file.write_text(
        '[bookie]\nmetadata = "zk://h/zbk"\njournal_dir = "/file"\nledger_dir = "/file"\n'
        'rack = "/file"\nsync_interval_ms = "5s"\n'
    )
    monkeypatch.setenv("ZBK_BOOKIE_LEDGER_DIR", "/environment")
    monkeypatch.setenv("ZBK_BOOKIE_RACK", "/environment")

    config = server_config(BookieConfig, NO_FLAGS | {"config_file": file, "rack": "/flag"})

    assert (config.journal_dir, config.ledger_dir, config.rack) == (
        "/file",
        "/environment",
        "/flag",
    )
    assert config.sync_interval_ms == 5_000
    assert config.listen == BookieConfig().listen


def test_an_unknown_key_in_the_file_names_the_one_that_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "zbk.toml"
    file.write_text('[bookie]\njournal_dri = "/x"\n')

    with pytest.raises(InvalidOptionError, match="did you mean 'journal_dir'"):
        server_config(BookieConfig, NO_FLAGS | {"config_file": file})


def test_without_any_metadata_the_cures_are_named() -> None:
    with pytest.raises(InvalidOptionError, match="start `zbk up`"):
        server_config(BookieConfig, dict(NO_FLAGS))


def test_ls_lists_the_registered_bookies(run: Run) -> None:
    table = run("bookie", "ls").stdout.splitlines()
    assert [line.split()[:5] for line in table[1:]] == [
        ["bookie-a", "tcp://127.0.0.1:4000", "writable", "off", "1"],
        ["bookie-b", "tcp://127.0.0.1:4001", "writable", "off", "2"],
        ["bookie-c", "tcp://127.0.0.1:4002", "read-only", "off", "3"],
    ]
    lines = run("bookie", "ls", "-o", "json").stdout.splitlines()
    assert [json.loads(line)["bookie_id"] for line in lines] == ["bookie-a", "bookie-b", "bookie-c"]


def test_show_prints_what_the_bookie_tells(run: Run) -> None:
    shown = json.loads(run("bookie", "show", "bookie-a", "-o", "json").stdout)

    assert shown["bookie_id"] == "bookie-a"
    assert shown["ledger_count"] == 7
    assert "request_id" not in shown


def test_show_has_units_for_people_and_plain_numbers_for_programs(run: Run) -> None:
    shown = run("bookie", "show", "bookie-a").stdout
    told = json.loads(run("bookie", "show", "bookie-a", "-o", "json").stdout)

    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert {"uptime 7 ms", "rss size 7 B", "scrub ended 1970-01-01T00:00:00.007Z"} <= set(lines)
    assert not re.search(r"\bms  ", shown)
    assert (told["uptime_ms"], told["rss_size"], told["scrub_ended_ms"]) == (7, 7, 7)


@pytest.mark.parametrize(
    "arguments",
    [
        ["bookie", "init", "--metadata", "zk://h", "--listen", "x", "--config", "no-such-file"],
        ["bookie", "run", "--log-format", "xml"],
        ["bookie", "show"],
    ],
)
def test_mistakes_of_use(run: Run, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_a_value_out_of_its_range_is_the_callers_fault(run: Run) -> None:
    result = run("bookie", "run", "--metadata", "zk://h", "--sync-interval-ms", "2h")

    assert result.exit_code == 1
    assert "sync_interval_ms" in result.stderr


@pytest.mark.parametrize("command", ["recover", "decommission"])
def test_the_grace_of_a_repair_by_hand_has_the_name_that_autorecovery_gives_it(
    run: Run, command: str
) -> None:
    beside = run("autorecovery", "run", "--help").stdout
    by_hand = run("bookie", command, "--help").stdout

    assert "--open-ledger-grace-ms DURATION" in beside
    assert "--grace, --open-ledger-grace-ms DURATION" in by_hand
    for option in ("--grace", "--open-ledger-grace-ms"):
        result = run("bookie", command, "b-1", option, "soon")
        assert "'soon' is not a duration" in " ".join(result.stderr.split())
