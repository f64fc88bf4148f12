"""What a package index gets: a source distribution that works, and a text without dead links."""

import re
import subprocess
from email.parser import BytesParser
from pathlib import Path

import pytest

BESIDE = re.compile(r"\[[^\]]+\]\((?!https?:|#)([^)#]+)[^)]*\)")


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_first_commands_of_the_readme_find_all_that_they_need(
    unpacked: Path, tmp_path: Path, command: str
) -> None:
    """Nothing is made: but a file that is missing would be named."""
    readme = (unpacked / "README.md").read_text("utf-8")
    assert command in readme.partition("\n## ")[0]

    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} --dry-run VENV={tmp_path / 'none'}"],
        cwd=unpacked,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "--require-hashes" in done.stdout


def test_every_link_of_its_documents_leads_to_a_file_in_it(unpacked: Path) -> None:
    for document in [*unpacked.glob("*.md"), unpacked / "spark" / "README.md"]:
        for link in BESIDE.findall(document.read_text("utf-8")):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_the_text_for_an_index_has_no_links_to_files(unpacked: Path) -> None:
    about = BytesParser().parsebytes((unpacked / "PKG-INFO").read_bytes())
    text = about.get_payload()

    assert about["Description-Content-Type"] == "text/markdown"
    assert isinstance(text, str)
    assert BESIDE.findall(text) == []
    assert "![" not in text
    assert "!Clients" not in text
    assert "ARCHITECTURE.md is the map of the code" in text
    assert "pip install zbk" in text
