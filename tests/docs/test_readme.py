"""The README's first look, line by line, as a stranger would type it."""

from pathlib import Path

from tests.support.document import ROOT, Started, blocks_of, environment, home, run_blocks, servers

__all__ = ["environment", "home", "servers"]  # fixtures


def test_every_command_of_the_readme_runs(
    home: Path, environment: dict[str, str], servers: list[Started]
) -> None:
    activate, *rest = blocks_of((ROOT / "README.md").read_text())
    assert activate.text == ". .venv/bin/activate\n"

    outputs = run_blocks(rest, home, environment, servers)

    assert len(outputs) + len(servers) == len(rest) == 3


def test_it_is_one_page_with_a_picture_and_two_commands_on_top() -> None:
    text = (ROOT / "README.md").read_text()

    assert len(text.splitlines()) < 100
    assert "](docs/images/overview.svg)" in text
    top = text.partition("```\n")[2].partition("```")[0]
    assert [line.split("  ")[0] for line in top.splitlines()] == ["make demo", "make test"]
