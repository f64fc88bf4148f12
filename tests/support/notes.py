"""Notes that tests which passed leave for the end of pytest's output."""

from collections.abc import Iterable, Iterator
from typing import Final

import pytest

NOTE: Final = "zbk note"
"""The name of the property that a test records."""


def notes_in(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """Yield what tests have noted, in the order of the reports."""
    for report in reports:
        for name, value in report.user_properties:
            if name == NOTE:
                yield str(value)
