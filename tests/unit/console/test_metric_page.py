"""The rows of the heat map, and the histograms that they are made of."""

import zbk
from zbk.console.metric_page import SERIES, STAGES
from zbk.console.pages import ADDS
from zbk.metrics.table import METRICS, TYPES


def test_the_adds_of_each_ledger_type_have_a_row() -> None:
    of_adds = [SERIES[name] for name in ADDS]
    assert of_adds == [("zbk_bookie_answer_seconds", TYPES[one]) for one in zbk.LedgerType]


def test_each_row_names_a_histogram_and_a_type_that_it_has() -> None:
    known = {
        (one.name, label)
        for one in METRICS
        if one.kind == "histogram"
        for label in one.labels.get("type", ("",))
    }
    assert {*SERIES.values(), *STAGES.values()} <= known
