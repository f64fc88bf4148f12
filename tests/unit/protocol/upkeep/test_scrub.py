"""What a scrubber keeps of its findings, and how it reports them."""

from zbk.protocol.upkeep.scrub import (
    REPORT_DELAY_MAX_MS,
    REPORT_DELAY_MS,
    DamagedEntries,
    DamagedFile,
    Findings,
    ReportQueue,
)


def test_neighbours_become_one_range() -> None:
    findings = Findings()
    for first, last in ((0, 0), (1, 4), (6, 6)):
        findings.add_entries(DamagedEntries(7, first, last))
    findings.add_entries(DamagedEntries(8, 7, 7))

    assert findings.ranges == [
        DamagedEntries(7, 0, 4),
        DamagedEntries(7, 6, 6),
        DamagedEntries(8, 7, 7),
    ]
    assert (findings.ledger_count, findings.entry_count) == (2, 7)


def test_a_ledger_of_which_nothing_is_known_is_counted_without_entries() -> None:
    findings = Findings()
    findings.add_entries(DamagedEntries(7, 0, -1))

    assert findings.is_damage_found
    assert (findings.ledger_count, findings.entry_count) == (1, 0)


def test_a_file_is_told_of_once() -> None:
    findings = Findings()
    told = [findings.add_file(DamagedFile(path, at, "bad")) for path, at in (("a", 1), ("a", 2))]

    assert told == [True, False]
    assert findings.files == [DamagedFile("a", 1, "bad")]


def test_findings_are_bounded_and_the_numbers_are_not() -> None:
    findings = Findings(file_count_max=2, range_count_max=3)
    told = [findings.add_file(DamagedFile(str(at), 0, "bad")) for at in range(10)]
    for ledger_id in range(10):
        findings.add_entries(DamagedEntries(ledger_id, 0, 1))

    assert told == [True, True] + [False] * 8
    assert (len(findings.files), findings.file_count) == (2, 10)
    assert (len(findings.ranges), findings.ledger_count, findings.entry_count) == (3, 10, 20)


def test_a_store_that_does_not_answer_is_asked_again_and_ever_less_often() -> None:
    queue = ReportQueue()
    queue.add(7)
    queue.add(7)
    assert queue.pending_count == 1
    now_ms, gaps, news = 0, [], []
    for _ in range(9):
        assert queue.due(now_ms) == (7, False)
        news.append(queue.not_taken(now_ms))
        since_ms = now_ms
        while queue.due(now_ms) is None:
            now_ms += 500
        gaps.append(now_ms - since_ms)

    assert gaps[:3] == [REPORT_DELAY_MS, 2 * REPORT_DELAY_MS, 4 * REPORT_DELAY_MS]
    assert max(gaps) == REPORT_DELAY_MAX_MS
    assert news == [True] + [False] * 8
    queue.taken(7)
    assert (queue.pending_count, queue.reported_count, queue.due(now_ms)) == (0, 1, None)


def test_a_ledger_of_which_more_may_be_found_is_not_reported_yet() -> None:
    queue = ReportQueue()
    queue.add(7)
    assert queue.due(0, besides=7) is None

    queue.add(9)

    assert queue.due(0, besides=7) == (9, False)
    assert queue.due(0, besides=None) == (7, False)


def test_what_waits_to_be_reported_is_bounded() -> None:
    queue = ReportQueue(count_max=3)
    for ledger_id in range(5):
        queue.add(ledger_id)

    assert (queue.pending_count, queue.forgotten_count) == (3, 2)


def test_a_ledger_whose_index_is_lost_is_reported_as_such_whatever_was_found_first() -> None:
    queue = ReportQueue()
    for is_index_lost in (False, True, False):
        queue.add(7, is_index_lost=is_index_lost)

    assert queue.due(0) == (7, True)
