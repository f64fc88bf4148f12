"""The alert rules and the dashboard, against the table of metrics, the runbooks and promtool."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.metric_page import PAGE, names_in, page, tables
from zbk.cli.generate import alerts as alerts_command
from zbk.cli.main import cli
from zbk.metrics.alerts import ALERTS, RUNBOOKS, rules
from zbk.metrics.dashboard import ROWS, dashboard
from zbk.metrics.table import BY_NAME

RULE_TESTS = Path(__file__).parent / "alert_rules_test.yml"
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=str(Path(sys.prefix) / "bin"))

needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed: it is in Debian's package prometheus"
)


def test_the_page_has_the_tables_of_the_code() -> None:
    assert page()[1] == tables(), "run: python -m tests.support.metric_page"


def test_names_state_their_unit_and_kind() -> None:
    for metric in BY_NAME.values():
        assert re.fullmatch(r"zbk_[a-z][a-z_]+[a-z]", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.kind != "histogram" or metric.unit == "seconds"
        assert not re.search(r"_(ms|us|kb|mb|size|count)\b", metric.name)
        assert metric.labels.keys() <= {"type", "operation", "result", "directory"}
        assert metric.help.endswith(".")


def test_every_query_of_an_alert_uses_metrics_of_the_table() -> None:
    for alert in ALERTS:
        names = names_in(alert.expression)
        assert names, alert.name
        assert names <= BY_NAME.keys(), alert.name


def test_every_query_of_the_dashboard_uses_metrics_of_the_table() -> None:
    for panel in [panel for row in ROWS.values() for panel in row]:
        for expression in panel.queries:
            names = names_in(expression)
            assert names, panel.title
            assert names <= BY_NAME.keys(), panel.title
            for name in names:
                is_histogram = BY_NAME[name].kind == "histogram"
                assert is_histogram == (f"{name}_bucket" in expression), panel.title


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    text = (PAGE.parent / "runbooks.md").read_text("utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert [section.split()[0] for section in sections] == [alert.name for alert in ALERTS]
    for section in sections:
        for part in ("**Meaning.**", "**Check.**", "**Do.**"):
            assert part in section, section.split()[0]


def test_metrics_and_options_in_runbooks_exist() -> None:
    text = (PAGE.parent / "runbooks.md").read_text("utf-8")
    assert names_in(text) <= BY_NAME.keys()


def test_commands_in_runbooks_exist() -> None:
    text = (PAGE.parent / "runbooks.md").read_text("utf-8")
    for command in set(re.findall(r"`zbk ((?:[a-z-]+ ?)+)", text)):
        words = command.split()
        found = cli.get_command(None, words[0])  # type: ignore[arg-type] # not used
        assert found is not None, command
        if hasattr(found, "lazy"):
            assert words[1] in found.lazy, command


def test_the_dashboard_is_json_with_distinct_panels() -> None:
    shown = json.loads(dashboard())
    panels = shown["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    assert all(panel["type"] == "row" or panel["targets"] for panel in panels)


def test_the_commands_print_both() -> None:
    assert alerts_command.RUNBOOKS == RUNBOOKS
    made = CliRunner().invoke(cli, ["generate", "alerts", "--runbooks", "https://wiki/zbk"])
    assert made.exit_code == 0, made.output
    assert made.output == rules("https://wiki/zbk")
    assert '"https://wiki/zbk#zbkbookiereadonly"' in made.output
    made = CliRunner().invoke(cli, ["generate", "grafana"])
    assert made.output == dashboard()


@needs_promtool
def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(rules())
    done = _promtool("check", "rules", str(tmp_path / "alerts.yml"))
    assert f"{len(ALERTS)} rules found" in done


@needs_promtool
def test_alerts_fire_and_clear_as_their_rule_tests_say(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(rules())
    shutil.copy(RULE_TESTS, tmp_path)
    assert "SUCCESS" in _promtool("test", "rules", str(tmp_path / RULE_TESTS.name))


def _promtool(*arguments: str) -> str:
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
