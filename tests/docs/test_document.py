"""The runner of documents: which blocks run, and what makes one fail."""

from pathlib import Path

import pytest

from tests.docs.test_pages import check_commands, command_lines
from tests.support.document import (
    Block,
    blocks_of,
    environment,
    home,
    run_block,
    start_and_wait_ready,
)

__all__ = ["environment", "home"]  # fixtures

PAGE = """\
```sh
echo one
```

```text
one
```

Prose.

```text
not an expectation: prose stands before it
```

```toml
[bookie]
```

```python
print("two")
```
"""


def test_only_shell_and_python_run_and_a_text_right_after_is_their_output() -> None:
    assert blocks_of(PAGE) == [
        Block("sh", "echo one\n", "one\n"),
        Block("python", 'print("two")\n'),
    ]


def test_a_block_that_prints_something_else_fails(home: Path, environment: dict[str, str]) -> None:
    run_block(Block("sh", "echo one; echo two\n", "...\ntwo\n"), home, environment)
    with pytest.raises(AssertionError, match="expected"):
        run_block(Block("sh", "echo one\n", "two\n"), home, environment)


def test_a_block_with_a_command_that_fails_fails(home: Path, environment: dict[str, str]) -> None:
    for text in ("false\necho done\n", "false | cat\n", 'echo "$not_set"\n'):
        with pytest.raises(AssertionError):
            run_block(Block("sh", text), home, environment)


def test_a_server_that_does_not_start_is_an_error_with_its_output(
    home: Path, environment: dict[str, str]
) -> None:
    with pytest.raises(AssertionError, match="no-such-option"):
        start_and_wait_ready("zbk up --no-such-option\n", home, environment)


@pytest.mark.parametrize(
    "text",
    [
        "`zbk legder ls`",
        "`zbk ledger lss`",
        "`zbk ledger ls --sate open`",
        "```text\nzbk nothing\n```",
    ],
)
def test_a_command_or_an_option_that_does_not_exist_is_found(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{text}\n")
    with pytest.raises(AssertionError):
        check_commands(page)


def test_commands_are_found_in_pipes_lists_and_prose() -> None:
    text = "```sh\nseq 3 | zbk log append x\nid=$(zbk ledger create)\n```\nThen `zbk status`.\n"

    assert list(command_lines(text)) == ["log append x", "ledger create", "status"]
