"""Which bookies are taken."""

import pytest

from zbk.errors import NotEnoughBookiesError
from zbk.protocol.placement import choose_ensemble


def test_the_first_ones_are_taken_in_their_order() -> None:
    assert choose_ensemble(["c", "a", "b"], 2) == ("c", "a")


def test_excluded_and_repeated_ones_are_passed_over() -> None:
    assert choose_ensemble(["c", "a", "c", "b", "d"], 3, exclude={"a"}) == ("c", "b", "d")


def test_too_few_say_how_many() -> None:
    with pytest.raises(NotEnoughBookiesError, match="need 3 bookies, have 1") as raised:
        choose_ensemble(["a", "b", "b"], 3, exclude=["a"])

    assert raised.value.args[:2] == (3, 1)
