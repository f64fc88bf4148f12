"""The hook that mkdocs runs: it fills in the generated parts of pages and adds copied documents."""

from collections.abc import Callable
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.generator.benchmark_tables import measured, peers
from docs.generator.commands import commands
from docs.generator.copies import DOCUMENTS, PICTURES, ROOT, copied_page
from docs.generator.errors import errors
from docs.generator.formats import files as file_formats
from docs.generator.formats import wire
from docs.generator.operations import operations
from docs.generator.options import options
from docs.generator.python_api import python_api

PARTS: Final[dict[str, Callable[[], str]]] = {
    "benchmarks": measured,
    "peers": peers,
    "commands": commands,
    "options": options,
    "operations": operations,
    "errors": errors,
    "python_api": python_api,
    "wire": wire,
    "files": file_formats,
}
"""By the name in the comment where the part is filled in: ``<!-- generated: commands -->``."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the copied documents and their pictures."""
    for path, source in DOCUMENTS.items():
        files.append(File.generated(config, path, content=copied_page(source)))
    for picture in sorted((ROOT / PICTURES).glob("*.svg")):
        path = f"explanation/pictures/{picture.name}"
        files.append(File.generated(config, path, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:  # noqa: ANN401 - mkdocs's own
    """Fill in the generated parts of a page."""
    for name, make in PARTS.items():
        comment = f"<!-- generated: {name} -->"
        if comment in markdown:
            markdown = markdown.replace(comment, make())
    return markdown
