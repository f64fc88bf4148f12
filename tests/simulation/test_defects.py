"""Each seeded defect is seen within the number of seeds that it states.

A known seed that no longer shows its defect costs a search. The summary of pytest names it.
"""

from collections.abc import Callable

import pytest

from tests.simulation.chosen_seeds import KNOWN_SEEDS
from tests.simulation.defects import DEFECTS, Defect
from tests.support.notes import NOTE

FAST = [pytest.param(d, id=d.code) for d in DEFECTS.values() if d.is_fast]
SLOW = [pytest.param(d, id=d.code) for d in DEFECTS.values() if not d.is_fast]


@pytest.mark.parametrize("defect", FAST)
def test_a_defect_is_caught(defect: Defect, record_property: Callable[[str, object], None]) -> None:
    outcome = defect.first_caught(is_cut_when_violated=True)
    assert outcome is not None, f"{defect.code}: {defect.text}"
    known = KNOWN_SEEDS.get(defect.code, outcome.seed)
    if outcome.seed != known:
        record_property(NOTE, f"seed {known} shows {defect.code} no longer; {outcome.seed} does")


@pytest.mark.soak
@pytest.mark.parametrize("defect", SLOW)
def test_a_defect_that_hides_well_is_caught(defect: Defect) -> None:
    assert defect.is_caught(), f"{defect.code}: {defect.text}"


def test_there_are_enough_of_them() -> None:
    assert len(DEFECTS) >= 25
