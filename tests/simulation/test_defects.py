"""Each seeded defect is seen within the number of seeds that it states."""

import pytest

from tests.simulation.defects import DEFECTS, Defect

FAST = [pytest.param(d, id=d.code) for d in DEFECTS.values() if d.is_fast]
SLOW = [pytest.param(d, id=d.code) for d in DEFECTS.values() if not d.is_fast]


@pytest.mark.parametrize("defect", FAST)
def test_a_defect_is_caught(defect: Defect) -> None:
    assert defect.is_caught(), f"{defect.code}: {defect.text}"


@pytest.mark.soak
@pytest.mark.parametrize("defect", SLOW)
def test_a_defect_that_hides_well_is_caught(defect: Defect) -> None:
    assert defect.is_caught(), f"{defect.code}: {defect.text}"


def test_there_are_enough_of_them() -> None:
    assert len(DEFECTS) >= 25
