"""Golden scripts: commands above a ``---``, what they printed below it.

The file is the test. ``pytest --rewrite-golden`` writes the new output into it; read the diff
before you commit it.
"""

from collections.abc import Callable
from pathlib import Path

GOLDEN_PATH = Path(__file__).parents[1] / "golden"


def scripts(folder: str) -> list[Path]:
    """Return the golden scripts in a folder below ``tests/golden``, by name; at least one."""
    found = sorted((GOLDEN_PATH / folder).glob("*.txt"))
    assert found, f"no golden scripts in {folder}"
    return found


def run_script(path: Path, command: Callable[[list[str]], str], *, rewrite: bool) -> None:
    """Run every block of ``path``; compare, or rewrite, what it prints.

    ``command`` gets one line split on blanks and returns what to print, "" for nothing. Blank
    lines part blocks; ``#`` starts a comment line, kept as is.
    """
    wanted = path.read_text(encoding="utf-8")
    blocks = [_run_block(block, command) for block in wanted.strip().split("\n\n")]
    got = "\n\n".join(blocks) + "\n"
    if rewrite:
        path.write_text(got, encoding="utf-8")
        return
    assert got == wanted, f"{path.name} changed; run pytest --rewrite-golden and read it"


def _run_block(block: str, command: Callable[[list[str]], str]) -> str:
    source, _, _ = block.partition("\n---")
    lines = [line for line in source.splitlines() if line and not line.startswith("#")]
    if not lines:
        return source
    outputs = [command(line.split()) for line in lines]
    return "\n".join([source, "---", *(text for text in outputs if text)])
