"""What a program loads with the client: no more than it uses."""

import subprocess
import sys

import pytest

LATE = (
    "asyncio",
    "tomllib",
    "zbk.protocol.write.writer",
    "zbk.protocol.recovery.recovery",
    "zbk.client.log.log",
)


def loaded(script: str) -> set[str]:
    """Return which of the modules that may come late are there after a script."""
    report = f"; import sys; print(*(name for name in {LATE} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script + report], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("name", ["connect", "Client", "LedgerReader", "LedgerTail"])
def test_a_client_that_does_not_write_loads_no_writers_and_never_asyncio(name: str) -> None:
    assert loaded(f"import zbk; zbk.{name}") == set()


def test_writers_come_with_the_first_one() -> None:
    assert loaded("import zbk; zbk.LedgerWriter") == {"zbk.protocol.write.writer"}
