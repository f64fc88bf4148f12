"""What a client exposes of entries that are acknowledged and not durable."""

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

import zbk
from tests.support.bookie_here import ONE, BookieHere
from zbk.client.api import Client
from zbk.client.write.ledger_creation import LedgerOptions

VD: LedgerOptions = {**ONE, "ledger_type": zbk.LedgerType.VD_JOURNAL}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def client(world: BookieHere, registry: CollectorRegistry) -> Iterator[Client]:
    # 0: a writer does not sync by itself when it is idle
    with zbk.connect(world.config.metadata, metrics=registry, explicit_lac_ms=0) as made:
        yield made


def size(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("zbk_client_unsynced_bytes")


def age_s(registry: CollectorRegistry) -> float:
    found = registry.get_sample_value("zbk_client_unsynced_age_seconds")
    assert found is not None
    return found


def test_the_ledger_with_the_most_counts_and_a_sync_or_the_close_clears_it(
    client: Client, registry: CollectorRegistry
) -> None:
    small, large = (client.create_ledger(**VD) for _ in range(2))
    assert (size(registry), age_s(registry)) == (0, 0)

    small.append(b"x" * 10)
    large.append(b"x" * 200)
    large.append(b"x" * 300)
    assert size(registry) == 500

    large.sync()
    assert size(registry) == 10
    large.append(b"x" * 40)
    assert size(registry) == 40, "what is synced no longer counts"

    large.close()
    assert size(registry) == 10
    small.close()
    assert (size(registry), age_s(registry)) == (0, 0)


def test_the_age_is_that_of_the_oldest_entry_and_grows_until_it_is_durable(
    client: Client, registry: CollectorRegistry
) -> None:
    ledger = client.create_ledger(**VD)
    ledger.append(b"old")
    before = age_s(registry)
    while (now := age_s(registry)) <= before:
        ledger.append(b"new")  # a newer entry does not make it younger
    assert now > before

    ledger.sync()
    assert age_s(registry) == 0


def test_what_a_pd_ledger_has_acknowledged_is_durable(
    client: Client, registry: CollectorRegistry
) -> None:
    ledger = client.create_ledger(**ONE)
    ledger.append_many([b"x"] * 100).result(30)

    assert (size(registry), age_s(registry)) == (0, 0)


def test_no_label_names_a_ledger(client: Client, registry: CollectorRegistry) -> None:
    client.create_ledger(**VD).append(b"x")

    samples = [
        sample
        for family in registry.collect()
        for sample in family.samples
        if "unsynced" in sample.name
    ]
    assert [sample.labels for sample in samples] == [{}, {}]
