"""The digest of what a campaign ran: it changes with each file that a run imports."""

import subprocess
import sys
from pathlib import Path

from tests.simulation.sources import ROOT, digest_of

LIST = """
import tests.simulation.__main__
from tests.simulation.sources import simulated_files
print(*simulated_files())
"""


def test_the_files_of_a_campaign_are_the_rules_and_the_simulation() -> None:
    command = [sys.executable, "-c", LIST]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {"zbk/protocol/write/writer.py", "tests/simulation/nemesis.py"} <= set(files.split())
    assert "zbk/cli/main.py" not in files.split()


def test_the_digest_changes_with_a_content_and_with_a_name(tmp_path: Path) -> None:
    one, other = Path("one.py"), Path("other.py")
    (tmp_path / one).write_text("a = 1\n")
    (tmp_path / other).write_text("a = 1\n")
    before = digest_of([one], tmp_path)
    assert digest_of([other], tmp_path) != before
    (tmp_path / one).write_text("a = 2\n")
    assert digest_of([one], tmp_path) != before
