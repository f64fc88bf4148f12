"""One trace of an append across processes: two bookies trace, one of version 2 does not."""

from pathlib import Path

import pytest

import zbk
from tests.support.traces import APPLICATION, Traces, span_id, trace_id
from tests.support.waiting import wait_until
from zbk.cluster.local import LocalCluster

TRACED = ("-m", "tests.support.traced_bookie", "bookie", "run")
OLD = ("-m", "tests.support.version_2_bookie", "bookie", "run")


def test_an_append_is_one_trace_across_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "spans"
    folder.mkdir()
    monkeypatch.setenv("SPAN_FOLDER", str(folder))
    traces = Traces()
    programs = {0: TRACED, 1: TRACED, 2: OLD}
    with (
        LocalCluster(tmp_path / "data", bookie_count=3, bookie_programs=programs) as cluster,
        zbk.connect(cluster.metadata_uri, tracing=traces.provider) as client,
        client.create_ledger(ack_quorum_size=3) as ledger,
    ):
        with traces.tracer.start_as_current_span(APPLICATION):
            assert ledger.append(b"x") == 0
        (append,) = traces.named("zbk.append", 1)
        wanted = f"zbk.bookie.add {trace_id(append)} {span_id(append)}\n"
        wait_until(
            lambda: [one.read_text() for one in folder.iterdir()] == [wanted] * 2,
            what="a span of the add in each process that traces",
        )
    assert ledger.metadata.last_entry_id == 0
