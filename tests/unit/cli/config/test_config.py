"""``zbk config``, and how its file reaches commands."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.cli import Run
from zbk.cli.config_file import client_options
from zbk.cli.config_options import value_text
from zbk.cli.main import cli
from zbk.config import (
    SECTIONS,
    AutorecoveryConfig,
    BookieConfig,
    ClientConfig,
    ConfigType,
    LogConfig,
)
from zbk.config.option import options_of
from zbk.config.sources import convert, read_toml, variable_of
from zbk.errors import InvalidOptionError


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZBK_CONFIG", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "zbk.toml"
    path.write_text(
        '[bookie]\nrack = "r1"\nsync_interval_ms = "2s"\n[client]\nwindow_size = "1 MiB"\n'
        '[autorecovery]\n[log]\nlevel = "debug"\n'
    )
    return path


@pytest.mark.parametrize("config_type", SECTIONS.values())
def test_every_option_of_every_table_is_explained(config_type: ConfigType) -> None:
    options = options_of(config_type)

    assert tuple(options) == config_type.__struct_fields__
    assert all(option.help.endswith(".") for option in options.values())


def test_the_default_file_passes_the_check_as_it_is_and_with_every_option_taken(
    run: Run, tmp_path: Path
) -> None:
    printed = run("config", "default").stdout
    path = tmp_path / "zbk.toml"

    for text in (printed, re.sub(r"^#(\w+ = )", r"\1", printed, flags=re.MULTILINE)):
        path.write_text(text)
        result = run("config", "check", str(path), "-o", "json")
        assert result.exit_code == 0, result.output
        count = sum(map(len, tomllib.loads(text).values()))
        assert json.loads(result.stdout)["option_count"] == count
    taken = tomllib.loads(path.read_text())
    for section, config_type in SECTIONS.items():
        assert set(taken[section]) == set(config_type.__struct_fields__)
        assert convert(config_type, taken[section]) == config_type()


def test_defaults_are_told_to_programs_too(run: Run) -> None:
    lines = run("config", "default", "-o", "json").stdout.splitlines()
    told = {(row["section"], row["option"]): row for row in map(json.loads, lines)}

    assert told["client", "window_size"]["default"] == 8 * 1024 * 1024
    assert told["client", "window_size"]["help"]
    for section, config_type in SECTIONS.items():
        assert {o for s, o in told if s == section} == set(config_type.__struct_fields__)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[bookie]\nrak = 1\n", "did you mean 'rack'"),
        ("[client]\nwindw_size = 1\n", "did you mean 'window_size'"),
        ("[log]\nlevle = 1\n", "did you mean 'level'"),
        ('[log]\nlevel = "loud"\n', "loud"),
        ("[autorecovery]\nworkers = 1\n", "did you mean 'worker_count'"),
        ("[boookie]\n", r"did you mean [bookie]"),
        ("[bookie]\nsync_interval_ms = '2 weeks'\n", "give milliseconds"),
        ("[client]\nwindow_size = 1\n", "must be between"),
        ("[bookie\n", "is not TOML"),
    ],
)
def test_check_says_what_is_wrong(run: Run, tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "zbk.toml"
    path.write_text(text)

    result = run("config", "check", str(path))

    assert result.exit_code == 1
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_each_wrong_option_is_told_of(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "zbk.toml"
    path.write_text('[bookie]\nrak = 1\nrack = "r1"\ngc_interval_ms = "soon"\n[log]\nlevel = 7\n')

    result = run("config", "check", str(path))

    assert result.exit_code == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert [line.split("=")[0] for line in lines] == [
        f"zbk: {path}: [bookie] rak",
        f"zbk: {path}: [bookie] gc_interval_ms",
        f"zbk: {path}: [log] level",
    ]


def test_an_unknown_table_does_not_hide_other_mistakes(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "zbk.toml"
    path.write_text(
        "lose = 1\nlog = 3\n[boookie]\npassword = 's3cret'\n[client]\nwindow_size = -1\n"
    )

    result = run("config", "check", str(path))

    assert result.exit_code == 1
    assert "s3cret" not in result.stderr
    assert [line.partition("; ")[0] for line in result.stderr.splitlines()] == [
        f"zbk: config={str(path)!r}: unknown table or key 'lose'",
        f"zbk: config={str(path)!r}: unknown table or key 'log'",
        f"zbk: config={str(path)!r}: unknown table or key 'boookie'",
        f"zbk: {path}: [client] window_size=-1: must be between 65536 and 1073741824",
    ]
    assert "did you mean [bookie]?" in result.stderr


def test_a_file_says_how_it_has_several_directories(run: Run) -> None:
    lines = run("config", "default").stdout.splitlines()

    for name in ("journal_dir", "ledger_dir"):
        (number,) = (n for n, line in enumerate(lines) if line.startswith(f"#{name} ="))
        assert lines[number - 1].endswith("Several: a list.")
    assert "given several times" not in " ".join(lines)


@pytest.mark.parametrize(
    ("command", "config_type"),
    [
        (("bookie", "run"), BookieConfig),
        (("bookie", "init"), BookieConfig),
        (("autorecovery", "run"), AutorecoveryConfig),
    ],
)
def test_help_names_the_variable_and_the_default_of_each_option(
    run: Run, command: tuple[str, str], config_type: ConfigType
) -> None:
    text = " ".join(run(*command, "--help").stdout.split())

    for name in config_type.__struct_fields__:
        if name == "metadata":
            continue
        variable = variable_of(config_type, name)
        default = value_text(name, getattr(config_type(), name))
        is_flag = default in ("true", "false")
        shown = f"; default: {default}" if default and not is_flag else ""
        assert f"[env var: {variable}{shown}]" in text


def test_a_file_that_is_not_text_is_no_traceback(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "zbk.toml"
    path.write_bytes(bytes(range(256)))

    assert run("config", "check", str(path)).exit_code == 1


def test_show_says_where_each_value_comes_from(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZBK_CLIENT_BATCH_COUNT_MAX", "7")
    monkeypatch.setenv("ZBK_BOOKIE_RACK", "r2")

    shown = run("config", "show", "--config", str(file), "--sources", "-o", "json").stdout

    rows = {(r["section"], r["option"]): r for r in map(json.loads, shown.splitlines())}
    told = {key: (row["value"], row["source"]) for key, row in rows.items()}
    assert told["bookie", "rack"] == ("r2", "ZBK_BOOKIE_RACK")
    assert told["bookie", "sync_interval_ms"] == (2_000, str(file))
    assert told["client", "window_size"] == (1024 * 1024, str(file))
    assert told["client", "batch_count_max"] == (7, "ZBK_CLIENT_BATCH_COUNT_MAX")
    assert told["client", "placement"] == ("random", "default")
    assert told["log", "level"] == ("debug", str(file))


def test_show_for_people_has_units_and_no_sources_unless_asked(run: Run, file: Path) -> None:
    lines = run("config", "show", "--config", str(file)).stdout.splitlines()

    assert lines[0].split() == ["SECTION", "OPTION", "VALUE"]
    assert any(line.split() == ["client", "window_size", "1", "MiB"] for line in lines)
    assert any(line.split() == ["bookie", "sync_interval_ms", "2s"] for line in lines)


def test_the_file_may_be_named_by_the_environment(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZBK_CONFIG", str(file))
    monkeypatch.setenv("ZBK_CLIENT_READ_AHEAD_COUNT", "2")

    assert "debug" in run("config", "show").stdout
    given = client_options()
    assert given == {"window_size": "1 MiB", "read_ahead_count": "2"}
    assert convert(ClientConfig, given).read_ahead_count == 2


def test_a_wrong_option_of_clients_stops_any_command_that_needs_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("[client]\nwindow_size = 1\n")
    monkeypatch.setenv("ZBK_CONFIG", str(file))

    result = CliRunner().invoke(cli, ["ledger", "ls", "--metadata", "memory://none"])

    assert result.exit_code == 1
    assert "window_size" in result.stderr
    with pytest.raises(InvalidOptionError):
        client_options()


def test_a_bookie_looks_at_the_log_table_of_its_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "zbk.toml"
    path.write_text('[log]\nformat = "xml"\n')

    result = run("bookie", "run", "--config", str(path), "--metadata", "memory://none")

    assert result.exit_code == 1
    assert "xml" in result.stderr


def test_log_options() -> None:
    tables = read_toml("zbk.toml", '[log]\nformat = "json"\n')

    assert convert(LogConfig, tables["log"]) == LogConfig(format="json")
