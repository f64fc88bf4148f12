"""Samples of a running cluster, one after the other, over connections that stay open."""

from zbk.health.bookie_infos import BookieAsker
from zbk.health.bookie_scrape import scrape_bookies
from zbk.health.cluster_rates import BookieSample, ClusterSample
from zbk.health.cluster_survey import http_url
from zbk.metadata.records.bookies import BookieRegistry
from zbk.metadata.records.instance import instance_id
from zbk.metadata.records.underreplication import UnderreplicationStore
from zbk.metadata.stores.connect import open_store
from zbk.metadata.values import doors_of
from zbk.security.credentials import ANONYMOUS, Credentials
from zbk.system.clock import monotonic_us
from zbk.system.deadline import within
from zbk.system.handle import Handle
from zbk.wire.messages import BookieInfo


class ClusterSampler(Handle):
    """Samples of the cluster at a metadata address; a context manager.

    Raises:
        InvalidOptionError: the address is malformed, or no cluster is there.
        MetadataUnavailableError: the store does not answer in time.
    """

    def __init__(
        self, metadata: str, timeout_s: float, credentials: Credentials = ANONYMOUS
    ) -> None:
        self._timeout_s = timeout_s
        with within(timeout_s):
            self._store = open_store(metadata, timeout_s=timeout_s, must_exist=True)
            try:
                instance = instance_id(self._store)
            except BaseException:
                self._store.close()
                raise
        self._registry = BookieRegistry(self._store)
        self._tasks = UnderreplicationStore(self._store)
        self._asker = BookieAsker(instance, timeout_s, credentials)

    def close(self) -> None:
        """Close the connections."""
        self._asker.close()
        self._store.close()

    def sample(self) -> ClusterSample:
        """Return a sample of this moment.

        Raises:
            MetadataUnavailableError: the store does not answer in time.
        """
        with within(self._timeout_s):
            found = self._registry.readonly() | self._registry.available()
            underreplicated_count = self._tasks.task_count()
            in_repair_count = len(self._tasks.locked_ids())
        bookies = [found[one] for one in sorted(found)]
        answers = self._asker.ask({one.bookie_id: doors_of(one) for one in bookies})
        at_us = monotonic_us()
        scraped = scrape_bookies({one.bookie_id: http_url(one) for one in bookies})
        samples = []
        for one in bookies:
            answer = answers.get(one.bookie_id)
            outcome = None if answer is None else answer.outcome
            samples.append(
                BookieSample(
                    bookie_id=one.bookie_id,
                    is_readonly=one.is_readonly,
                    info=outcome if isinstance(outcome, BookieInfo) else None,
                    scraped=scraped.get(one.bookie_id),
                )
            )
        return ClusterSample(
            at_us=at_us,
            bookies=tuple(samples),
            underreplicated_count=underreplicated_count,
            in_repair_count=in_repair_count,
        )
