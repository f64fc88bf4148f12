"""The state of journals and disks, from a page of metrics over HTTP."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from zbk.health.bookie_scrape import (
    BOOKIE_COUNT_MAX,
    BookieScrape,
    scrape_bookies,
    scrape_in,
)

PAGE = """\
# HELP zbk_journal_fsync_seconds Duration of each fsync of a journal.
# TYPE zbk_journal_fsync_seconds histogram
zbk_journal_fsync_seconds_bucket{directory="/j1",le="0.01"} 3.0
zbk_journal_fsync_seconds_count{directory="/j1"} 4.0
zbk_journal_fsync_seconds_sum{directory="/j1"} 0.5
zbk_journal_fsync_seconds_count{directory="/j2"} 6.0
zbk_journal_fsync_seconds_sum{directory="/j2"} 1.5
zbk_journal_unsynced_bytes{directory="/j1"} 64.0
zbk_journal_unsynced_bytes{directory="/j2"} 32.0
zbk_journal_unsynced_age_seconds{directory="/j1"} 7.5
zbk_journal_unsynced_age_seconds{directory="/j2"} 0.5
zbk_entry_log_unsynced_bytes 8.0
zbk_entry_log_unsynced_age_seconds 9.5
zbk_journal_write_seconds_sum{directory="/j2"} 9.5
zbk_journal_queue_seconds_count{directory="/j1"} 5.0
zbk_journal_queue_seconds_sum{directory="/j1"} 0.25
zbk_disk_free_bytes{directory="/j1"} 75.0
zbk_disk_free_bytes{directory="/l1"} 10.0
zbk_disk_size_bytes{directory="/j1"} 100.0
zbk_disk_size_bytes{directory="/l1"} 40.0
zbk_bookie_added_entries_total{type="pd_journal"} 7.0
zbk_bookie_added_entries_total{type="vd_journal"} 3.0
zbk_bookie_added_entries_total{type="vd_bypass_journal"} 2.0
"""


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/metrics" else 404)
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base
        return


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_journals_of_a_bookie_count_together(url: str) -> None:
    found = BookieScrape(
        10,
        2.0,
        104,
        7.5,
        log_unsynced_age_s=9.5,
        queue_count=5,
        queue_s=0.25,
        vd_entry_count=5,
        disk_share=0.75,
    )
    assert found.oldest_unsynced_s == 9.5
    assert scrape_bookies({"b-1": url}, 5.0) == {"b-1": found}


def test_a_bookie_that_serves_nothing_is_left_out(url: str) -> None:
    found = scrape_bookies(
        {"b-1": url, "b-2": "http://127.0.0.1:1", "b-3": f"{url}/other", "b-4": "file:///x"}, 5.0
    )

    assert found.keys() == {"b-1"}


def test_many_bookies_are_not_asked() -> None:
    assert (
        scrape_bookies(dict.fromkeys(map(str, range(BOOKIE_COUNT_MAX + 1)), "http://x"), 1.0) == {}
    )


def test_another_page_has_no_totals() -> None:
    assert scrape_in("<html>") is None
