import pytest
from prometheus_client import CollectorRegistry, generate_latest

from zbk.metrics.buckets import Buckets, merged
from zbk.metrics.collector import TableCollector
from zbk.metrics.metric import Metric
from zbk.metrics.samples import Samples

TABLE = (
    Metric("zbk_x_total", "counter", "X.", labels={"type": ("a", "b")}),
    Metric("zbk_y_bytes", "gauge", "Y."),
    Metric("zbk_z_bytes", "gauge", "Z.", labels={"directory": ()}),
    Metric("zbk_w_seconds", "histogram", "W.", labels={"type": ("a",)}),
    Metric("zbk_build_info", "info", "Build."),
)


def exposed(collector: TableCollector) -> list[str]:
    registry = CollectorRegistry()
    registry.register(collector)
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_every_series_with_known_labels_is_there_at_zero() -> None:
    lines = exposed(TableCollector(TABLE, {}))
    assert 'zbk_x_total{type="a"} 0.0' in lines
    assert 'zbk_x_total{type="b"} 0.0' in lines
    assert "zbk_y_bytes 0.0" in lines
    assert 'zbk_w_seconds_bucket{le="+Inf",type="a"} 0.0' in lines
    assert not [line for line in lines if line.startswith("zbk_z_bytes")]


def test_values_of_sources_replace_the_zeros() -> None:
    buckets = Buckets()
    buckets.observe(700)

    def source(samples: Samples) -> None:
        samples.set("zbk_x_total", 3, "b")
        samples.set("zbk_z_bytes", 5, "/data")
        samples.put_buckets("zbk_w_seconds", buckets, "a")
        samples.put_info("zbk_build_info", {"version": "1"})

    lines = exposed(TableCollector(TABLE, {"one": source}))
    assert 'zbk_x_total{type="b"} 3.0' in lines
    assert 'zbk_z_bytes{directory="/data"} 5.0' in lines
    assert 'zbk_w_seconds_bucket{le="0.0005",type="a"} 0.0' in lines
    assert 'zbk_w_seconds_bucket{le="0.001",type="a"} 1.0' in lines
    assert 'zbk_w_seconds_sum{type="a"} 0.0007' in lines
    assert 'zbk_build_info{version="1"} 1.0' in lines


def test_a_source_that_fails_costs_its_own_values(caplog: pytest.LogCaptureFixture) -> None:
    def failing(_samples: Samples) -> None:
        raise OSError("gone")

    collector = TableCollector(
        TABLE, {"bad": failing, "good": lambda samples: samples.set("zbk_y_bytes", 7)}
    )
    assert "zbk_y_bytes 7.0" in exposed(collector)
    assert "the metrics of bad are missing" in caplog.text


def test_a_name_that_is_not_in_the_table_is_a_bug() -> None:
    collector = TableCollector(TABLE, {"one": lambda samples: samples.set("zbk_other", 1)})
    with pytest.raises(AssertionError, match="zbk_other"):
        list(collector.collect())


def test_histograms_of_several_owners_are_one() -> None:
    first, second = Buckets(), Buckets()
    first.observe(10)
    second.observe(20_000_000)
    total = merged([first, second])
    assert (sum(total.counts), total.counts[0], total.counts[-1]) == (2, 1, 1)
    assert total.sum_us == 20_000_010
