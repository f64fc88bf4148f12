"""A short campaign of faults on real processes: `make chaos` runs the long ones."""

from pathlib import Path

import pytest

from tests.chaos.campaign import Settings, run

SECONDS = 13.0
ROUND_SECONDS = 6.0


@pytest.mark.parametrize("seed", [2])
def test_every_promise_is_kept_under_faults(seed: int, tmp_path: Path) -> None:
    said: list[str] = []
    settings = Settings(
        seed=seed,
        seconds=SECONDS,
        round_seconds=ROUND_SECONDS,
        can_zookeeper=False,  # these three take their time to set up, or need root
        can_namespaces=False,
        can_power=False,
    )

    report = run(settings, tmp_path, said.append)

    assert report.violations == [], "\n".join(said)
    assert report.troubles == [], "nothing but the harness failed"
    assert report.injected.total() >= 2
    assert report.checked["adds acknowledged"] > 100
    assert report.checked["entries read"] >= report.checked["adds acknowledged"]
