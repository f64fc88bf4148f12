"""What the documents name is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
PAGES = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))]
PATH = re.compile(r"(?<![\w/.-])((?:[a-z_]+/)+[a-z_]+(?:\.(?:py|md|txt))?/?|\.ci/run)(?![\w/])")


def named_paths(document: str) -> set[str]:
    """Return what looks like a path of ours: whole, or below zbk/."""
    text = (ROOT / document).read_text("utf-8")
    text = re.sub(r"^```(?:sh|python|toml)\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return {found for found in PATH.findall(text) if found.endswith((".py", ".md", ".txt", "/run"))}


@pytest.mark.parametrize("document", [*DOCUMENTS, *PAGES])
def test_every_path_that_a_document_names_exists(document: str) -> None:
    roots = (ROOT, ROOT / "zbk", (ROOT / document).parent)
    for path in named_paths(document):
        assert any((root / path).exists() for root in roots), f"{document}: {path}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_between_documents_leads_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / document).read_text("utf-8"))

    for link in links:
        assert (ROOT / link).exists(), f"{document}: {link}"


def test_the_map_names_every_layer() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    layers = text.partition("## Layers")[2].partition("\n## ")[0]

    for folder in (ROOT / "zbk").iterdir():
        if (folder / "__init__.py").exists():
            assert re.search(rf"^[a-z |]*\b{folder.name}\b", layers, re.MULTILINE), folder.name


QUESTIONS = {
    "fencing": "fence",
    "the LAC of a VD ledger": "LAC",
    "when a checkpoint is due": "checkpoint",
    "which bookie receives a new copy": "bookie",
    "when garbage collection may drop a ledger": "collect",
    "what a full disk still accepts": "space",
    "how a log changes its owner": "owner",
    "what counts as a torn tail of the journal": "torn tail",
}
"""What a newcomer looks for first, and a word that the docstring of each module there has."""


def test_the_rules_that_newcomers_look_for_are_where_the_guide_says() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("## Where is what")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE))

    for question, word in QUESTIONS.items():
        (place,) = [place for rule, place in rows.items() if rule.startswith(question)]
        for path in re.findall("`(.+?)`", place):
            docstring = ast.get_docstring(ast.parse((ROOT / "zbk" / path).read_text("utf-8")))
            assert docstring is not None
            assert word in docstring, f"{question}: {path}"
    for path in re.findall("`(.+?)`", " ".join(rows.values())):
        assert (ROOT / "zbk" / path).is_file(), path


def test_every_make_target_that_a_document_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for document in DOCUMENTS:
        for target in re.findall(r"\bmake ([a-z-]+)", (ROOT / document).read_text("utf-8")):
            if target in ("and", "nothing"):  # English
                continue
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{document}: make {target}"
