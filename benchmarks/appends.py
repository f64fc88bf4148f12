"""Cases of one writer: ``append_many``, ``append_async``, ``append``; by size, by offered load."""

from typing import Final

from benchmarks import figures
from benchmarks.case import (
    Amount,
    Case,
    PeerShape,
    Row,
    Step,
    at_least,
    at_most,
    rate_text,
    size_text,
    way,
)

FLOOR_SHARE: Final = 0.6
LOAD_SECONDS: Final = 4  # per step of offered load
LOAD_BATCH_COUNT: Final = 100
SLOW_SYNC_MS: Final = 100  # in addition to their own time
BESIDE_SECONDS: Final = 5
FAIR_MS: Final = 10
ENCRYPTED_SHARE: Final = 0.6

UNITS: Final = {"entries_per_s": "entries/s", "payload_mb_per_s": "MB/s"}


def write_step(kind: str, count: int, *words: str, name: str = "zbk", size: int = 100) -> Step:
    """Return a ``zbk bench write``; ``size`` in bytes of payload."""
    shape = ("write", "--type", kind, "--size", str(size), *words)
    return Step(name, shape, (Amount("--count", count),))


def slow_step(kind: str, *words: str, amount: Amount, name: str = "zbk") -> Step:
    """Return a write to a cluster with slow disks: an experiment."""
    shape = ("write", "--type", kind, "--size", "100", *words)
    return Step(name, shape, (amount,), is_experiment=True)


def append_many(kind: str, size: int, count: int, field: str, goal: int) -> Case:
    """Return the case of one call per batch; ``goal`` is for ``field``, a rate."""
    unit = UNITS[field]
    row = Row(
        title=f"`append_many`, {kind.upper()}, {size_text(size)}",
        goal=f">= {rate_text(goal)} {unit}, or >= {FLOOR_SHARE:.0%} of the floor",
        step="zbk",
        unit=unit,
        zbk="zbk",
        floor="floor",
        ratio="ratio",
        peer_shape=PeerShape(size, "many"),
        peer_field=field,
        ways=(
            way("figure", at_least("zbk", goal)),
            way("ratio", at_least("ratio", FLOOR_SHARE)),
        ),
    )
    return Case(
        name=f"many-{kind}-{size}",
        title=row.title,
        steps=(write_step(kind, count, "--against-floor", size=size),),
        read=figures.against_floor(field),
        rows=(row,),
        seconds=9,
    )


def append_async(kind: str, count: int, goal: int) -> Case:
    """Return the case of one future per entry; ``goal`` in entries a second."""
    row = Row(
        title=f"`append_async`, a future each, {kind.upper()}, 100 B",
        goal=f">= {rate_text(goal)} entries/s",
        step="zbk",
        unit="entries/s",
        zbk="zbk",
        floor="floor",
        ratio="ratio",
        peer_shape=PeerShape(100, "async"),
        peer_field="entries_per_s",
        ways=(way("figure", at_least("zbk", goal)),),
    )
    return Case(
        name=f"async-{kind}",
        title=row.title,
        steps=(write_step(kind, count, "--api", "async", "--against-floor"),),
        read=figures.against_floor("entries_per_s"),
        rows=(row,),
        seconds=6,
    )


def lone(kind: str) -> Case:
    """Return the case of one ``append`` after another."""
    title = f"a lone `append`, {kind.upper()}, 100 B"
    count = Amount("--count", 2_000)
    floor = Step(
        "floor",
        ("floor", "--type", kind, "--api", "sync", "--fsync-probe"),
        (count,),
        is_on_zookeeper=False,
    )
    over_fsync = ("over_fsync_ms", "within 0.6 ms of the fsync of the same bytes")
    alone = ("latency_p50_ms", "<= 0.6 ms: no fsync in it")
    figure, goal = over_fsync if kind == "pd" else alone
    rows = (
        Row(
            title=f"{title}, p50",
            goal=goal,
            step="zbk",
            unit="ms",
            zbk="latency_p50_ms",
            floor="fsync_p50_ms" if kind == "pd" else "floor_p50_ms",
            peer_shape=PeerShape(100, "sync"),
            peer_field="latency_p50_ms",
            ways=(way("figure", at_most(figure, 0.6)),),
        ),
        Row(
            title=f"{title}, p99",
            goal="<= 2 x the floor's",
            step="floor",
            unit="ms",
            zbk="latency_p99_ms",
            floor="floor_p99_ms",
            ratio="p99_ratio",
            peer_shape=PeerShape(100, "sync"),
            peer_field="latency_p99_ms",
            ways=(way("ratio", at_most("p99_ratio", 2.0)),),
        ),
    )
    return Case(
        name=f"lone-{kind}",
        title=title,
        steps=(write_step(kind, count.value, "--api", "sync"), floor),
        read=figures.lone,
        rows=rows,
        seconds=5,
    )


def beside_fsyncs() -> Case:
    """Return the case of a VD writer whose neighbor, a PD writer, waits for slow fsyncs."""
    delay = f"{SLOW_SYNC_MS}ms"
    words = ("--api", "sync", "--rate", "100", "--neighbor", "pd", "--slow-disks", delay)
    title = f"a VD `append` beside a lone PD writer (fsync + {SLOW_SYNC_MS} ms)"
    rows = tuple(
        Row(
            title=f"{title}, {name}",
            goal=f"<= {limit_ms} ms: no fsync in it",
            step="zbk",
            unit="ms",
            zbk=f"latency_{name}_ms",
            floor=f"neighbor_latency_{name}_ms",
            ways=(way("figure", at_most(f"latency_{name}_ms", limit_ms)),),
        )
        for name, limit_ms in (("p50", SLOW_SYNC_MS // 10), ("p95", SLOW_SYNC_MS // 2))
    )
    step = slow_step("vd", *words, amount=Amount("--seconds", BESIDE_SECONDS, "s"))
    names = [f"{who}latency_{name}_ms" for who in ("", "neighbor_") for name in ("p50", "p95")]
    return Case(
        name="vd-beside-pd",
        title=title,
        steps=(step,),
        read=figures.fields(*names),
        rows=rows,
        seconds=BESIDE_SECONDS + 5,
        round_count=1,
    )


def bypass() -> Case:
    """Return the case of ledgers that bypass the journal, each size beside VD in turn."""
    loads = {1024: (200_000, 1.2), 16_384: (15_000, 1.5), 65_536: (4_000, 1.5)}
    steps = tuple(
        write_step(kind, count, name=f"{kind}-{size}", size=size)
        for size, (count, _goal) in loads.items()
        for kind in ("vd", "vd-bypass")
    )
    title = "past the journal, beside VD in turn"
    rates = tuple(
        Row(
            title=f"`append_many`, {size_text(size)}, {title}",
            goal=f">= {goal:.0%}",
            step=f"vd-bypass-{size}",
            unit="MB/s",
            zbk=f"vd-bypass_{size}_mb_per_s",
            floor=f"vd_{size}_mb_per_s",
            ratio=f"{size}_ratio",
            ways=(way("ratio", at_least(f"{size}_ratio", goal)),),
        )
        for size, (_count, goal) in loads.items()
    )
    written = Row(
        title=f"bytes written to disk for one of payload and copy, {size_text(16_384)}, {title}",
        goal="<= 1.1",
        step="vd-bypass-16384",
        unit="x",
        zbk="vd-bypass_16384_written_share",
        floor="vd_16384_written_share",
        ways=(way("figure", at_most("vd-bypass_16384_written_share", 1.1)),),
    )
    return Case(
        name="bypass",
        title="ledgers past the journal, beside VD",
        steps=steps,
        read=figures.bypass(tuple(loads)),
        rows=(*rates, written),
        seconds=24,
        round_count=1,
    )


def fairness() -> Case:
    """Return the case of a lone ``append`` beside a ledger that is written at full speed."""
    title = "a lone `append` beside a ledger at full speed, PD, 100 B"
    clients = {"same": "of the same client", "other": "of another client"}
    steps = tuple(
        Step(
            name,
            ("write", "--type", "pd", "--neighbor", "pd", "--neighbor-client", name),
            (Amount("--seconds", BESIDE_SECONDS, "s"),),
        )
        for name in clients
    )
    rows = tuple(
        Row(
            title=f"{title}, {who}, p99",
            goal=f"<= {FAIR_MS} ms",
            step=name,
            unit="ms",
            zbk=f"{name}_p99_ms",
            ways=(way("figure", at_most(f"{name}_p99_ms", FAIR_MS)),),
        )
        for name, who in clients.items()
    )
    return Case(
        name="fairness",
        title=title,
        steps=steps,
        read=figures.neighbors(*clients),
        rows=rows,
        seconds=2 * (BESIDE_SECONDS + 4),
        round_count=1,
    )


def encryption() -> Case:
    """Return the case of appends with and without encryption, and of handshakes."""
    title = "with encryption, beside none in turn"
    shown = {
        "rate": (f"`append_many`, PD, 1 KiB, {title}", f">= {ENCRYPTED_SHARE:.0%}", "entries/s"),
        "lone": (f"a lone `append`, PD, 1 KiB, {title}, p50", "<= 0.15 ms more", "ms"),
        "handshakes": ("connections that say HELLO, encrypted, to one bookie", ">= 400/s", "/s"),
    }
    figure = {
        "rate": ("encrypted_entries_per_s", "plain_entries_per_s", "rate_ratio"),
        "lone": ("encrypted_p50_ms", "plain_p50_ms", ""),
        "handshakes": ("handshakes_per_s", "", ""),
    }
    ways = {
        "rate": way("ratio", at_least("rate_ratio", ENCRYPTED_SHARE)),
        "lone": way("figure", at_most("added_p50_ms", 0.15)),
        "handshakes": way("figure", at_least("handshakes_per_s", 400)),
    }
    rows = tuple(
        Row(
            title=shown[name][0],
            goal=shown[name][1],
            step="zbk",
            unit=shown[name][2],
            zbk=figure[name][0],
            floor=figure[name][1],
            ratio=figure[name][2],
            ways=(ways[name],),
        )
        for name in shown
    )
    step = Step(
        "zbk",
        ("encryption",),
        (Amount("--count", 60_000, least=2_000),),
        is_on_zookeeper=False,
        is_experiment=True,
    )
    names = sorted({one for names in figure.values() for one in names if one} | {"added_p50_ms"})
    return Case(
        name="encryption",
        title="appends with and without encryption",
        steps=(step,),
        read=figures.fields(*names),
        rows=rows,
        seconds=18,
        round_count=1,
    )


def other_size(kind: str, size: int, count: int) -> Case:
    """Return a case that is only a point in the picture by entry size."""
    return Case(
        name=f"many-{kind}-{size}",
        title=f"`append_many`, {kind.upper()}, {size_text(size)}",
        steps=(write_step(kind, count, "--against-floor", size=size),),
        read=figures.against_floor("entries_per_s"),
        seconds=9,
        round_count=1,
    )


def offered_load(kind: str, rates: tuple[int, ...]) -> Case:
    """Return the case that offers more and more entries a second."""
    seconds = Amount("--seconds", LOAD_SECONDS, "s")
    words = ("write", "--type", kind, "--batch", str(LOAD_BATCH_COUNT), "--rate")
    return Case(
        name=f"load-{kind}",
        title=f"latency against offered load, {kind.upper()}, 100 B",
        steps=tuple(Step(str(rate), (*words, str(rate)), (seconds,)) for rate in rates),
        read=figures.offered_load,
        seconds=8 * len(rates) + 4,  # the last step offers more than it can write in its time
        round_count=1,
    )
