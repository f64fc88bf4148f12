"""What `make check` refuses in the text of the product: patterns that the house rules name.

    python -m tests.check_voice

Docstrings begin with a verb of what is done (Return, Raise, Start, ...), not with one of what is
caused, and *cannot* is one word. The docstring of a function or property does not begin with
"Whether" or "What": it begins with "Return whether", "True when", or with a noun. The subject of a
sentence is a part of the system, not "whoever", "nobody" or "somebody".
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOTS: Final = ("zbk", "spark", "benchmarks", "tests")
BAD_FIRST_WORDS: Final = frozenset({"Let", "Have", "Tell", "Take"})
BAD_FIRST_WORDS_OF_TESTS: Final = frozenset({"Let", "Have", "Tell"})
BAD_QUESTIONS: Final = frozenset({"Whether", "What"})
MAY_BE_BAD: Final = re.compile(rf'"""\s*({"|".join(sorted(BAD_FIRST_WORDS | BAD_QUESTIONS))})\b')
BAD_SUBJECT: Final = re.compile(r"\b([Ww]hoever|[Nn]obody|[Ss]omebody)\b")
DOCUMENTS: Final = ("*.md", "docs/**/*.md", "spark/*.md", "benchmarks/*.md")


def main() -> int:
    """Print each finding as file:line: text; return the exit code."""
    findings = [*_in_docstrings(), *_in_text(), *_subjects()]
    for finding in findings:
        sys.stderr.write(f"{finding}\n")
    return 1 if findings else 0


def _in_docstrings() -> Iterator[str]:
    for path in _sources(*ROOTS):
        is_test = path.is_relative_to("tests")
        bad_words = BAD_FIRST_WORDS_OF_TESTS if is_test else BAD_FIRST_WORDS
        text_of_file = path.read_text()
        if not MAY_BE_BAD.search(text_of_file):
            continue  # parsing takes a hundred times as long
        for node in ast.walk(ast.parse(text_of_file)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = ast.get_docstring(node) or ""
                word = text.split(maxsplit=1)[0] if text else ""
                is_question = word in BAD_QUESTIONS and isinstance(node, ast.FunctionDef)
                if word in bad_words or (is_question and not is_test):
                    line = node.body[0].lineno
                    yield f"{path}:{line}: a docstring begins with {word!r}"


def _in_text() -> Iterator[str]:
    documents = [path for pattern in DOCUMENTS for path in Path().glob(pattern)]
    for path in [*_sources(*ROOTS), *documents]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\b[Cc]an not\b", line) and path.name != Path(__file__).name:
                yield f"{path}:{number}: cannot is one word"


def _subjects() -> Iterator[str]:
    for path in [*_sources("zbk"), *sorted(Path("docs").rglob("*.md"))]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = BAD_SUBJECT.search(line)
            if found is not None:
                yield f"{path}:{number}: {found[0]!r} is no part of the system"


def _sources(*roots: str) -> Iterator[Path]:
    for root in roots:
        yield from sorted(Path(root).rglob("*.py"))


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m tests.check_voice", description="Check the voice of docstrings and pages."
    ).parse_args()
    sys.exit(main())
