"""Options of a process that runs: some change, the others need a restart."""

import pytest

from zbk.config import AutorecoveryConfig, BookieConfig
from zbk.config.running import RunningOptions, live_options
from zbk.errors import InvalidOptionError


def test_only_intervals_rates_and_limits_are_live() -> None:
    live = set(live_options(BookieConfig))
    assert {"gc_interval_ms", "scrub_rate_size", "disk_warn_free", "identity_fence_rate"} <= live
    assert live.isdisjoint({"metadata", "journal_dir", "ledger_dir", "listen", "memory_max"})
    assert "replication_rate_size" in live_options(AutorecoveryConfig)
    assert "worker_count" not in live_options(AutorecoveryConfig)


def test_a_change_is_applied_at_once_and_by_the_next_bookie() -> None:
    applied: list[BookieConfig] = []
    running = RunningOptions(BookieConfig(rack="r1"))
    running.begin(running.config, applied.append)

    assert running.change({"gc_interval_ms": "5s", "scrub_rate_size": 1 << 20}) == {
        "gc_interval_ms": 5_000,
        "scrub_rate_size": 1 << 20,
    }

    assert applied[-1].gc_interval_ms == running.config.gc_interval_ms == 5_000
    assert running.sources == dict.fromkeys(("gc_interval_ms", "scrub_rate_size"), "admin API")
    later: list[BookieConfig] = []
    running.begin(BookieConfig(rack="r1", ledger_dir="/new"), later.append)
    assert (later[0].gc_interval_ms, later[0].ledger_dir) == (5_000, "/new")
    running.change({"gc_interval_ms": 0})
    assert (len(later), len(applied)) == (2, 2)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"gc_interval_ms": "soon"}, "gc_interval_ms"),
        ({"gc_interval_ms": -1, "scrub_rate_size": 1}, "must be between"),
        ({"rack": "r2"}, "needs a restart"),
        ({"gc_interval": 1}, "unknown option"),
        ({"disk_warn_free": "much"}, "disk_warn_free"),
        ({"gc_interval_ms": 10, "listen": "tcp://a:1"}, "needs a restart"),
    ],
)
def test_a_wrong_change_changes_nothing(given: dict[str, object], told: str) -> None:
    applied: list[BookieConfig] = []
    running = RunningOptions(BookieConfig())
    running.begin(running.config, applied.append)

    with pytest.raises(InvalidOptionError, match=told):
        running.change(given)

    assert (running.config, running.sources, len(applied)) == (BookieConfig(), {}, 1)


def test_the_configuration_counts_alone_when_it_is_read_again() -> None:
    running = RunningOptions(BookieConfig(rack="r1"))
    running.change({"gc_interval_ms": 5_000})

    changed = running.reread(BookieConfig(rack="r2", scrub_rate_size=1 << 20))

    assert changed.applied == ("gc_interval_ms", "scrub_rate_size")
    assert changed.need_restart == ("rack",)
    assert running.config == BookieConfig(rack="r1", scrub_rate_size=1 << 20)
    assert running.sources["gc_interval_ms"] == "configuration, read again"
    assert running.reread(BookieConfig(rack="r1", scrub_rate_size=1 << 20)) == ((), ())
