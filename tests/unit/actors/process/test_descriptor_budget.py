"""What a bookie's descriptors are for, whatever their number."""

import pytest

from zbk.actors.process.descriptor_budget import CONNECTION_COUNT_MIN, plan_descriptors
from zbk.config import BookieConfig
from zbk.errors import TooFewDescriptorsError


def config(**options: object) -> BookieConfig:
    return BookieConfig(metadata="sqlite:///m", **options)  # type: ignore[arg-type]  # any of them


@pytest.mark.parametrize("directory_count", [1, 8])
@pytest.mark.parametrize("limit", [512, 1_000, 1_024, 4_096, 20_000, 1 << 20])
def test_all_that_may_be_open_at_once_is_within_the_limit(limit: int, directory_count: int) -> None:
    dirs = tuple(f"/d{number}" for number in range(directory_count))
    budget = plan_descriptors(limit, config(journal_dir=dirs, ledger_dir=dirs))
    connections = budget.connections
    assert connections.greeted_max >= CONNECTION_COUNT_MIN
    assert connections.lobby_max >= 8
    assert budget.open_files_max >= 8
    used = budget.own_count + budget.open_files_max + budget.backlog + connections.open_max
    assert used <= limit


def test_with_many_descriptors_everything_is_as_configured() -> None:
    budget = plan_descriptors(20_000, config())
    assert budget.connections.greeted_max == BookieConfig().connection_count_max
    assert budget.open_files_max == BookieConfig().open_files_max


def test_with_the_common_limit_of_1024_there_is_room_for_hundreds_of_clients() -> None:
    budget = plan_descriptors(1_024, config())
    assert budget.connections.greeted_max >= 300
    assert budget.open_files_max >= 128


def test_a_bookie_serves_with_256_descriptors_and_few_logs_of_single_ledgers() -> None:
    budget = plan_descriptors(256, config())
    assert budget.connections.greeted_max >= CONNECTION_COUNT_MIN
    assert 1 <= budget.own_log_count_max < BookieConfig().own_log_count_max
    assert plan_descriptors(20_000, config()).own_log_count_max == BookieConfig().own_log_count_max
    assert plan_descriptors(256, config(entry_log_per_ledger="never")).own_log_count_max == 0


def test_a_limit_that_is_too_small_is_refused_with_one_that_suffices() -> None:
    with pytest.raises(TooFewDescriptorsError, match=r"ulimit -n \d+") as raised:
        plan_descriptors(64, config())

    plan_descriptors(raised.value.needed, config())


def test_small_entry_logs_leave_more_of_them_to_the_checkpoint() -> None:
    few, many = (
        plan_descriptors(4_096, config(entry_log_size_max=size)) for size in (1 << 30, 1 << 20)
    )
    assert many.own_count > few.own_count


def test_fewer_own_logs_than_configured_are_reported() -> None:
    wanted = config(own_log_count_max=5_000)

    told = plan_descriptors(4_096, wanted).reduced(wanted)

    assert "own_log_count_max is 5000" in told
    assert plan_descriptors(1 << 20, wanted).reduced(wanted) == ""
    never = config(own_log_count_max=5_000, entry_log_per_ledger="never")
    assert "own_log_count_max" not in plan_descriptors(4_096, never).reduced(never)
