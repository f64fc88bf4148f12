"""Which bookies a new ledger, or a new fragment, is written to.

Chance comes in as a list already shuffled, so the choice here is plain: the first that may be
taken. Decision: no racks or regions yet; a policy that knows them will stand beside this one.

Source: BookKeeper's ``DefaultEnsemblePlacementPolicy``.
"""

from collections.abc import Collection, Sequence

from zbk.errors import NotEnoughBookiesError


def choose_ensemble(
    available: Sequence[str], ensemble_size: int, exclude: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the first ``ensemble_size`` different ids of ``available`` that are not excluded.

    Raises:
        NotEnoughBookiesError: fewer are there.

    >>> choose_ensemble(["b3", "b1", "b2"], 2, exclude={"b1"})
    ('b3', 'b2')
    """
    chosen = tuple(dict.fromkeys(b for b in available if b not in exclude))
    if len(chosen) < ensemble_size:
        excluded = f", {len(exclude)} excluded" if exclude else ""
        raise NotEnoughBookiesError(
            ensemble_size, len(chosen), f"bookies that take new entries{excluded}"
        )
    return chosen[:ensemble_size]
